"""A model in one file: the same counts as in memory, lessons that stay, several processes, and strange files."""

from __future__ import annotations

import asyncio
import random
import resource
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Totals
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.model.file_model import FileModel
from nbstream.store.model.ledger import LedgerConflict
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.scripts import Lesson, LessonBatch
from tests.harness.lessons import MESSAGES, NOTE, SUM_NAMES, TOKENS, Step, entry, steps

_PAGE = 4096
NAMES = [*TOKENS, *SUM_NAMES]
_LABELS = {"m1": "spam", "m2": "spam", "m3": "ham"}


async def learn(model: FileModel | MemoryModel, message: str, label: str | None) -> bytes | LedgerConflict:
    new = entry(label, TOKENS, 500, [(b"=x", 7)]) if label else None
    return await model.commit_lesson(message, await model.entry(message), new, NOTE)


async def state(model: FileModel | MemoryModel) -> tuple[list[list[int]], Totals, list[list[int]]]:
    rows, totals = await model.look_up(NAMES)
    return rows.tolist(), totals, (await model.sums(tuple(SUM_NAMES))).tolist()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
async def test_the_same_lessons_give_the_same_counts_as_in_memory_and_none_when_all_are_taken_back(
    tmp_path: Path, steps: list[Step]
) -> None:
    (tmp_path / "model").unlink(missing_ok=True)
    file, memory = FileModel(tmp_path / "model"), MemoryModel()

    for message, lesson in steps:
        new = entry(*lesson) if lesson else None
        for model in (file, memory):
            assert isinstance(await model.commit_lesson(message, await model.entry(message), new, NOTE), bytes)
        assert await state(file) == await state(memory)
        assert await file.last_change() == await memory.last_change()
    assert await file.entries(MESSAGES) == await memory.entries(MESSAGES)

    for message in MESSAGES:
        await file.commit_lesson(message, await file.entry(message), None, NOTE)
    assert await state(file) == await state(MemoryModel())
    file.close()


async def test_a_batch_counts_its_lessons_but_for_those_that_conflict(tmp_path: Path) -> None:
    file, memory = FileModel(tmp_path / "model"), MemoryModel()
    lessons = [Lesson(key, None, entry(label, TOKENS, 500, [(b"=x", 7)]), NOTE) for key, label in _LABELS.items()]
    for model in (file, memory):
        await learn(model, "m2", "ham")

    answers = await file.commit_lessons(LessonBatch(lessons))

    await memory.commit_lessons(LessonBatch([lesson for lesson in lessons if lesson.message_key != "m2"]))
    assert answers == [b"0-2", LedgerConflict(await file.entry("m2")), b"0-3"]
    assert await state(file) == await state(memory)
    file.close()


async def test_a_batch_of_conflicts_alone_writes_nothing(tmp_path: Path) -> None:
    file, log = FileModel(tmp_path / "model"), tmp_path / "model-wal"
    await learn(file, "m1", "ham")
    before = log.read_bytes()

    answers = await file.commit_lessons(LessonBatch([Lesson("m1", None, entry("spam", TOKENS), NOTE)]))

    assert answers == [LedgerConflict(await file.entry("m1"))]
    assert log.read_bytes() == before
    file.close()


async def test_what_was_learned_is_there_after_the_file_is_opened_again(tmp_path: Path) -> None:
    model = FileModel(tmp_path / "model")
    await learn(model, "m1", "spam")
    before, entry_before = await state(model), await model.entry("m1")
    model.close()

    again = FileModel(tmp_path / "model")

    assert await state(again) == before
    assert await again.entry("m1") == entry_before
    again.close()


async def test_several_processes_learn_at_once_and_each_lesson_counts_once(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; from nbstream.store.model.file_model import FileModel;"
        "from tests.store.model.test_file_model import learn;"
        "model = FileModel(Path(sys.argv[1]));"
        "[asyncio.run(learn(model, f'{sys.argv[2]}-{n}', 'spam')) for n in range(20)]"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "model")]

    learners = [await asyncio.create_subprocess_exec(*command, name) for name in "abc"]

    assert await asyncio.wait_for(asyncio.gather(*(learner.wait() for learner in learners)), 60) == [0, 0, 0]
    model = FileModel(tmp_path / "model")
    assert (await model.look_up(()))[1].messages == (0, 60)
    model.close()


async def test_a_process_that_is_killed_leaves_whole_lessons(tmp_path: Path) -> None:
    program = (
        "import asyncio, itertools, sys; from pathlib import Path;"
        "from nbstream.store.model.file_model import FileModel;"
        "from tests.store.model.test_file_model import learn;"
        "model = FileModel(Path(sys.argv[1]));"
        "[print(n, flush=True) for n in itertools.count() if asyncio.run(learn(model, f'm{n}', 'spam'))]"
    )
    learner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path / "model"), stdout=asyncio.subprocess.PIPE
    )
    assert learner.stdout
    acknowledged = [int(await asyncio.wait_for(learner.stdout.readline(), 60)) for _ in range(10)]
    learner.kill()
    acknowledged += map(int, (await learner.stdout.read()).split())
    await learner.wait()

    model = FileModel(tmp_path / "model")
    counts, totals = await model.look_up(TOKENS)

    assert all([await model.entry(f"m{n}") for n in acknowledged])
    assert totals.messages[1] in {len(acknowledged), len(acknowledged) + 1}
    assert counts.tolist() == [[0, 500 * totals.messages[1]]] * len(TOKENS)
    model.close()


async def test_a_full_disk_refuses_the_lesson_and_changes_nothing(tmp_path: Path) -> None:
    model = FileModel(tmp_path / "model")
    await learn(model, "m1", "spam")
    before = await state(model)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "model-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited[1]))
    try:
        with pytest.raises(StoreUnavailable, match="model"):
            await learn(model, "m2", "spam")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)

    assert await state(model) == before
    assert isinstance(await learn(model, "m2", "spam"), bytes)
    model.close()


def test_a_file_of_another_program_or_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    text, database, newer = tmp_path / "text", tmp_path / "database", tmp_path / "newer"
    text.write_text("no database " * 100)
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE anything (x)")
    other.close()
    FileModel(newer).close()
    with sqlite3.connect(newer) as changed:
        changed.execute("UPDATE signature SET value = '99' WHERE field = 'format'")
    changed.close()
    content = {path: path.read_bytes() for path in (text, database, newer)}

    with pytest.raises(StoreIncompatible, match="damaged, or no model"):
        FileModel(text)
    with pytest.raises(StoreIncompatible, match="another program"):
        FileModel(database)
    with pytest.raises(StoreIncompatible, match="format 99"):
        FileModel(newer)
    with pytest.raises(StoreUnavailable, match="No such file"):
        FileModel(tmp_path / "missing" / "model")
    assert {path: path.read_bytes() for path in content} == content


@pytest.fixture(scope="module")
def taught_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of some pages, with free ones among them."""
    path = tmp_path_factory.mktemp("taught") / "model"

    async def teach() -> None:
        model = FileModel(path)
        for n in range(80):
            label, tokens = CLASSES[n % 2], [b"body:%d" % (number * n % 251) for number in range(1, 60)]
            lesson = entry(label, list(dict.fromkeys(tokens)), 1000, [(b"=score%+d" % n, 1000)])
            await model.commit_lesson(f"m{n}", None, lesson, NOTE)
        for n in range(0, 20):
            await model.commit_lesson(f"m{n}", await model.entry(f"m{n}"), None, NOTE)
        model.close()

    asyncio.run(teach())
    return path


CALLS_OF_AN_OPEN_MODEL: list[Callable[[FileModel], Awaitable[object]]] = [
    lambda model: model.look_up([b"body:%d" % n for n in range(251)]),
    lambda model: model.entries([f"m{n}" for n in range(80)]),
    lambda model: model.last_change(),
    lambda model: learn(model, "new", "spam"),
]


async def test_a_file_that_is_damaged_while_it_is_open_gives_no_other_error(
    taught_file: Path, tmp_path: Path
) -> None:
    original, refused = taught_file.read_bytes(), 0
    for seed in range(100):
        draw, path = random.Random(seed), tmp_path / str(seed)
        path.write_bytes(original)
        model = FileModel(path)
        model._database.execute("PRAGMA cache_size = 1")  # as with a file that is larger than the cache
        with path.open("r+b") as file:
            for _ in range(30):
                file.seek(draw.randrange(_PAGE, len(original)))
                file.write(draw.randbytes(64))
        for call in CALLS_OF_AN_OPEN_MODEL:
            try:
                await call(model)
            except StoreIncompatible:
                refused += 1
        model.close()

    assert refused > 20


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    FileModel(tmp_path / "model").close()

    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o600

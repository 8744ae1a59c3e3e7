"""The filter for programs: three verbs over a file, a model in memory, or the Redis of a daemon."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from itertools import count
from pathlib import Path
from typing import Any, assert_type, get_args

import pytest

import nbstream
from nbstream import CheckResult, Clue, Kind, Label, LessonResult, Outcome, SpamFilter
from nbstream.bayes.columns import CLASSES
from nbstream.errors import ConfigError, StoreIncompatible, StoreUnavailable
from nbstream.filter import FeedbackOutcome
from nbstream.policy.verdict import Verdict
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import DEADLINE_SECONDS

MODEL = {"min_learned": 3}
SETTINGS = {"model": MODEL, "verdict": {"spam": 0.95}}
KINDS = ("file", "memory", "redis")

Open = Callable[[str], SpamFilter]


def spam(n: int) -> bytes:
    return f"From: win@offers.example\nSubject: Prize {n}\n\nClaim your free prize number {n} today\n".encode()


def ham(n: int) -> bytes:
    return f"From: ann@site.example\nSubject: Lunch {n}\n\nShall we have lunch on day {n}, with Ben?\n".encode()


def teach(spam_filter: SpamFilter) -> None:
    for n in range(20):
        spam_filter.learn(spam(n), "spam")
        spam_filter.learn(ham(n), "ham")


@pytest.fixture
def open_filter(tmp_path: Path, own_redis: RedisServer) -> Open:
    """Open a filter of that kind; the same file or Redis each time."""
    ways: dict[str, Callable[[], SpamFilter]] = {
        "file": lambda: SpamFilter.open(tmp_path / "mail.nbs", SETTINGS),
        "memory": lambda: SpamFilter.in_memory(SETTINGS),
        "redis": lambda: SpamFilter.connect(own_redis.url, "programs", SETTINGS),
    }
    return lambda kind: ways[kind]()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learned_decides_and_can_be_taken_back(open_filter: Open, kind: str) -> None:
    with open_filter(kind) as spam_filter:
        untaught = spam_filter.check(spam(99))
        teach(spam_filter)

        assert untaught.verdict == "unsure"
        assert untaught.reason == "learning 0/6"
        assert spam_filter.check(spam(99)).verdict == "spam"
        assert spam_filter.check(ham(99)).verdict == "ham"
        assert spam_filter.learned() == {"ham": 20, "spam": 20}
        for n in range(20):
            assert spam_filter.unlearn(spam(n)).outcome == "unlearned"
            assert spam_filter.unlearn(ham(n)).outcome == "unlearned"
        assert spam_filter.learned() == {"ham": 0, "spam": 0}
        assert spam_filter.check(spam(99)) == untaught


def test_all_kinds_give_the_same_results(open_filter: Open) -> None:
    results = []
    for kind in KINDS:
        with open_filter(kind) as spam_filter:
            teach(spam_filter)
            relearned = spam_filter.learn(ham(3), "spam")
            results.append((relearned, [spam_filter.check(message(99)) for message in (spam, ham)]))

    assert results == [results[0]] * len(KINDS)


def test_a_result_says_why(open_filter: Open) -> None:
    with open_filter("memory") as spam_filter:
        teach(spam_filter)
        result = spam_filter.check(spam(99))

    assert result.probability > 0.95
    assert result.reason == "probability >= 0.95 (spam)"
    assert result.clues[0].log_odds > 0
    assert "body:prize" in [clue.token for clue in result.clues]


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_what_was_learned_is_there_when_the_model_is_opened_again(open_filter: Open, kind: str) -> None:
    with open_filter(kind) as spam_filter:
        teach(spam_filter)
        before = spam_filter.check(spam(99))

    with open_filter(kind) as again, open_filter(kind) as at_the_same_time:
        assert again.check(spam(99)) == before
        assert at_the_same_time.unlearn(spam(1)).outcome == "unlearned"
        assert again.learned() == {"ham": 20, "spam": 19}


@pytest.mark.parametrize("name", [":memory:", "file:mail.nbs?mode=memory", "-wal", "\udcff"])
def test_a_file_may_have_any_name_and_is_made_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with SpamFilter.open(name) as spam_filter:
        spam_filter.learn(spam(1), "spam")

    with SpamFilter.open(name) as again:
        assert again.learned() == {"ham": 0, "spam": 1}
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_the_same_lesson_again_changes_nothing_and_another_label_relearns(open_filter: Open) -> None:
    with open_filter("file") as spam_filter:
        labels: list[Label] = ["spam", "spam", "ham"]
        outcomes = [spam_filter.learn(spam(1), label).outcome for label in labels]
        unknown = spam_filter.unlearn(ham(1)).outcome

        assert [*outcomes, unknown] == ["learned", "already", "relearned", "unknown"]
        with pytest.raises(ValueError, match="label 'junk'"):
            spam_filter.learn(spam(1), "junk")  # type: ignore[arg-type]  # what a program without types may do


@pytest.mark.parametrize("kind", KINDS)
def test_many_messages_are_learned_as_if_one_by_one(open_filter: Open, kind: str) -> None:
    with SpamFilter.in_memory(SETTINGS) as one_by_one, open_filter(kind) as spam_filter:
        teach(one_by_one)
        assert spam_filter.learn_many(map(spam, range(20)), "spam") == 20
        assert spam_filter.learn_many(map(ham, range(20)), "ham") == 20

        assert spam_filter.learned() == one_by_one.learned()
        assert spam_filter.learn_many([spam(1), spam(99), ham(2)], "spam") == 2
        for n in range(20):
            assert spam_filter.unlearn(spam(n)).outcome == "unlearned"


@pytest.mark.parametrize("kind", KINDS)
def test_the_messages_to_learn_are_read_in_the_thread_of_the_caller(open_filter: Open, kind: str) -> None:
    threads = set()

    def messages() -> Iterator[bytes]:
        for n in range(3):
            threads.add(threading.current_thread())
            assert spam_filter.check(spam(n)).verdict == "unsure"
            yield spam(n)

    with open_filter(kind) as spam_filter:
        assert spam_filter.learn_many(messages(), "spam") == 3

    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("error", [KeyError("of the caller"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_an_error_while_the_messages_are_read_is_raised_and_the_filter_works(error: BaseException) -> None:
    def messages() -> Iterator[bytes]:
        yield spam(1)
        raise error

    with SpamFilter.in_memory() as spam_filter:
        with pytest.raises(type(error)):
            spam_filter.learn_many(messages(), "spam")

        assert spam_filter.learn_many([spam(1), spam(2)], "spam") == 2


def test_who_reinforces_is_believed_more(open_filter: Open) -> None:
    with open_filter("memory") as spam_filter:
        teach(spam_filter)
        first = spam_filter.learn(spam(99), "ham")
        again = spam_filter.learn(spam(99), "ham")
        reinforced = spam_filter.learn(spam(99), "ham", reinforce=True)

    assert [lesson.outcome for lesson in (first, again, reinforced)] == ["learned", "already", "reinforced"]
    assert reinforced.after.probability < again.after.probability == first.after.probability


def test_a_text_is_no_mail(open_filter: Open) -> None:
    with open_filter("file") as spam_filter:
        for n in range(5):
            spam_filter.learn(f"free ringtone, call {n} now", "spam")
            spam_filter.learn(f"see you at the station at {n}", "ham")

        assert spam_filter.check("call now, a free ringtone").probability > 0.5
        assert spam_filter.check("the station at seven").probability < 0.5


def test_several_threads_may_use_one_filter(open_filter: Open) -> None:
    with open_filter("file") as spam_filter, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: spam_filter.learn(spam(n), "spam"), range(40)))
        list(threads.map(lambda n: spam_filter.learn(ham(n), "ham"), range(40)))
        checks = list(threads.map(lambda n: spam_filter.check(spam(100 + n)), range(40)))

        assert spam_filter.learned() == {"ham": 40, "spam": 40}
        assert {check.verdict for check in checks} == {"spam"}


async def test_a_coroutine_calls_it_in_another_thread() -> None:
    with SpamFilter.in_memory(SETTINGS) as spam_filter:
        await asyncio.gather(*(asyncio.to_thread(spam_filter.learn, spam(n), "spam") for n in range(20)))
        call = asyncio.create_task(asyncio.to_thread(spam_filter.learn, spam(1), "spam"))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

        assert await asyncio.to_thread(spam_filter.learned) == {"ham": 0, "spam": 20}


WRONG_CONTENTS = [None, 5, Path("mail.eml"), message_from_bytes(spam(1)), [spam(1)]]


@pytest.mark.parametrize("content", WRONG_CONTENTS, ids=lambda content: type(content).__name__)
def test_what_is_neither_bytes_nor_text_is_refused_with_what_is_wanted(content: Any) -> None:
    expected = f"a message must be bytes, .* any other text a str: found {type(content).__name__}"
    with SpamFilter.in_memory() as spam_filter:
        for call in (
            lambda: spam_filter.check(content),
            lambda: spam_filter.learn(content, "spam"),
            lambda: spam_filter.learn_many([spam(1), content], "spam"),
            lambda: spam_filter.unlearn(content),
        ):
            with pytest.raises(TypeError, match=expected):
                call()


def test_the_types_of_results_are_public_and_name_all_values() -> None:
    assert get_args(nbstream.Label) == CLASSES
    assert set(get_args(nbstream.Verdict)) == {str(verdict) for verdict in Verdict}
    assert set(get_args(nbstream.Outcome)) == {str(outcome) for outcome in FeedbackOutcome}
    assert set(nbstream.__all__) <= set(dir(nbstream.spam_filter)) | {"__version__"}
    stub = ast.parse(Path(nbstream.__file__).with_suffix(".pyi").read_text())
    (names,) = (node.value for node in stub.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(names) == nbstream.__all__


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_ham_are_learned_counted_and_said(kind: str, tmp_path: Path, own_redis: RedisServer) -> None:
    classes = ["ham", "newsletter", "spam"]
    settings = {**SETTINGS, "model": {**MODEL, "classes": classes, "max_tokens": None}}
    ways: dict[str, Callable[[], SpamFilter]] = {
        "file": lambda: SpamFilter.open(tmp_path / "mail.nbs", settings),
        "memory": lambda: SpamFilter.in_memory(settings),
        "redis": lambda: SpamFilter.connect(own_redis.url, "kinds", settings),
    }
    newsletter = Kind("newsletter")
    with ways[kind]() as spam_filter:
        assert spam_filter.check(ham(99)).kinds == {}
        assert spam_filter.learn_many(map(spam, range(20)), "spam") == 20
        assert spam_filter.learn_many(map(ham, range(20)), "ham") == 20
        texts = [f"Read the news of week {n}, or unsubscribe" for n in range(21)]
        assert spam_filter.learn_many(texts[:20], newsletter) == 20
        assert spam_filter.learn(texts[20], newsletter).outcome == "learned"

        assert spam_filter.learned() == {"ham": 20, "newsletter": 21, "spam": 20}
        result = spam_filter.check("Read the news of week 99, or unsubscribe")
        assert (result.verdict, result.kind) == ("ham", newsletter)
        assert list(result.kinds) == [newsletter, "ham"]
        assert sum(result.kinds.values()) == pytest.approx(1)
        assert spam_filter.check(ham(99)).kind == "ham"
        assert spam_filter.check(spam(99)).kind is None
        assert spam_filter.learn(texts[20], "ham").outcome == "relearned"
        assert spam_filter.learned() == {"ham": 21, "newsletter": 20, "spam": 20}
        with pytest.raises(ValueError, match="'receipt' is none of ham, newsletter, spam"):
            spam_filter.learn(texts[20], Kind("receipt"))
        assert hash(result) == hash(spam_filter.check("Read the news of week 99, or unsubscribe"))


def test_close_ends_the_calls_of_other_threads_and_loses_no_lesson_that_was_acknowledged(
    open_filter: Open,
) -> None:
    spam_filter, learned = open_filter("file"), []

    def learn_until_closed(thread: int) -> None:
        for n in count(thread * 1_000_000):
            spam_filter.learn(spam(n), "spam")
            learned.append(n)

    with ThreadPoolExecutor(20) as threads:
        calls = [threads.submit(learn_until_closed, thread) for thread in range(20)]
        while len(learned) < 10:
            spam_filter.check(spam(1))
        spam_filter.close()

    assert {str(call.exception()) for call in calls} == {"this spam filter is closed"}
    assert {type(call.exception()) for call in calls} == {ValueError}
    with open_filter("file") as again:
        assert all(again.learn(spam(n), "spam").outcome == "already" for n in learned)


PROGRAM_THAT_FORKS = """
import os, sys
from nbstream import SpamFilter
with SpamFilter.open(sys.argv[1]) as spam_filter:
    if os.fork() == 0:
        try:
            spam_filter.check(b"")
        except RuntimeError as error:
            print(error)
    else:
        os.wait()
        print(spam_filter.check(b"").verdict)
"""
PROGRAM_WITH_A_FINALIZER = """
import sys
from nbstream import SpamFilter
class Owner:
    spam_filter = SpamFilter.open(sys.argv[1])
    def __del__(self):
        try:
            self.spam_filter.check(b"")
        except RuntimeError as error:
            print(error)
        self.spam_filter.close()
        print("closed")
owner = Owner()
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (PROGRAM_THAT_FORKS, "this spam filter was opened before os.fork: open one in this process\nunsure\n"),
        (PROGRAM_WITH_A_FINALIZER, "a spam filter cannot be used by a finalizer (__del__)\nclosed\n"),
    ],
)
def test_where_the_thread_is_gone_a_call_is_an_error_and_waits_for_nothing(
    tmp_path: Path, program: str, expected: str
) -> None:
    command = [sys.executable, "-c", program, str(tmp_path / "mail.nbs")]

    printed = subprocess.run(command, check=True, timeout=DEADLINE_SECONDS, capture_output=True, text=True).stdout

    assert printed == expected


def test_what_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no model " * 100)

    with pytest.raises(StoreIncompatible, match="no model"):
        SpamFilter.open(tmp_path / "text")
    with pytest.raises(StoreUnavailable, match="missing"):
        SpamFilter.open(tmp_path / "missing" / "mail.nbs")
    with pytest.raises(StoreUnavailable):
        SpamFilter.connect(f"unix://{tmp_path}/no.sock")
    with pytest.raises(ConfigError, match=r"verdict.spam: found 2"):
        SpamFilter.open(tmp_path / "mail.nbs", {"verdict": {"spam": 2}})
    with pytest.raises(ConfigError, match=r"redis.url"):
        SpamFilter.connect("postgres://127.0.0.1/")


def test_a_redis_that_goes_away_is_an_error_and_the_filter_works_again_after_it(own_redis: RedisServer) -> None:
    with SpamFilter.connect(own_redis.url, settings=SETTINGS) as spam_filter:
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            spam_filter.learn(spam(1), "spam")
        own_redis.start()

        assert spam_filter.learn(spam(1), "spam").outcome == "learned"


def test_the_configuration_file_of_a_daemon_gives_its_verdicts(own_redis: RedisServer, tmp_path: Path) -> None:
    file = tmp_path / "nbstream.yaml"
    file.write_text(
        f"redis: {{url: '{own_redis.url}'}}\nmodel: {{name: site, min_learned: 1}}\nverdict: {{spam: 0.6}}\n"
    )

    with SpamFilter.connect(settings=str(file)) as spam_filter, SpamFilter.connect(own_redis.url, "site") as other:
        teach(spam_filter)

        assert spam_filter.check(spam(99)).reason == "probability >= 0.6 (spam)"
        assert other.learned() == spam_filter.learned()


def test_the_import_of_the_package_loads_nothing_heavy() -> None:
    program = "import nbstream, sys; print(sorted({'numpy', 'redis', 'pydantic', 'asyncio'} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(nbstream, "no_such_name")  # noqa: B009 - the attribute is missing on purpose


def a_program(raw: bytearray, label: Label, result: CheckResult) -> Outcome:
    """What mypy reads here as in a user's program; what it is to refuse is ignored, or mypy would say so."""
    clues: tuple[Clue, ...] = result.clues
    assert_type(clues[0].token, str)
    assert result.verdict != "Spam"  # type: ignore[comparison-overlap]
    with SpamFilter.open("mail.nbs", {"verdict": {"spam": 0.98}}) as spam_filter:
        lesson: LessonResult = spam_filter.learn(bytes(raw), Kind("newsletter"), actor="me")
        assert_type(lesson.after.probability, float)
        spam_filter.learn(b"", "junk")  # type: ignore[arg-type]
        return spam_filter.learn(memoryview(raw), label).outcome

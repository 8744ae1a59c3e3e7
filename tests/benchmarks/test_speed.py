"""``make bench`` works: small runs over letters written for tests, and the page that is made of what they find."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nbstream.mail.message import Message
from tests.benchmarks.speed import feedback, learning, lesson, listeners, sizes, stages, ui, ways
from tests.benchmarks.speed.bench import Bench, Scale
from tests.benchmarks.speed.bogofilter import verdicts
from tests.benchmarks.speed.clients import Http, Load, Smtp, all_of, at_rate
from tests.benchmarks.speed.figures import LOAD, OURS, Figure, Report, Skip, percentile
from tests.benchmarks.speed.lesson_stages import DAEMON, STAGES, seconds_by_stage
from tests.benchmarks.speed.page import TEXTS, page
from tests.benchmarks.speed.pairs import median_interval
from tests.benchmarks.speed.plan import (
    BOGOFILTER,
    BULK,
    BYTES_WRITTEN,
    CHECK,
    CPU_MICROSECONDS,
    CPU_MILLISECONDS,
    HTTP,
    MICROSECONDS,
    PARTS,
    RATE,
    SMTP,
    STORED_FOR_PAGE,
    TARGETS,
    UNSYNCED,
    UNTAUGHT,
    WAYS,
    http_lessons,
)
from tests.benchmarks.speed.processes import CannotMeasure, cpu_seconds
from tests.benchmarks.speed.sink import Sink
from tests.benchmarks.speed.wrk import read_result
from tests.letters import write_corpus

ROOT = Path(__file__).parents[2]


def cells(text: str, *words: str) -> list[str]:
    """The one line of a table with these words in it."""
    (line,) = (line for line in text.splitlines() if line.startswith("|") and all(word in line for word in words))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (0.99, 10), (0.1, 1), (1.0, 10)])
def test_a_percentile_is_the_nearest_rank(share: float, value: float) -> None:
    assert percentile([3, 1, 2, 10, 9, 8, 7, 6, 5, 4], share) == value


def test_a_figure_is_its_median_and_a_ratio_says_how_many_times_better() -> None:
    report = Report(
        {"CPU": "some"},
        [
            Figure("stages", CHECK, "nbstream", CPU_MICROSECONDS, (100.0, 250.0, 200.0)),
            Figure("stages", CHECK, BOGOFILTER, CPU_MICROSECONDS, (300.0,)),
            Figure("listeners", HTTP, "nbstream", RATE, (1000.0, 1200.0)),
            Figure("listeners", HTTP, "rspamd", RATE, (500.0,)),
        ],
        [Skip("listeners", "SpamAssassin", "no spamd: apt install spamd")],
    )

    written = page(report)

    assert cells(written, BOGOFILTER, CPU_MICROSECONDS)[2:] == ["200", "300", BOGOFILTER, "1.50"]
    assert cells(written, CHECK, "1.3 times bogofilter")[2:] == ["1.50 times", "met"]
    assert cells(written, RATE, "| rspamd |")[2:] == ["1,100", "500", "rspamd", "2.20"]
    assert cells(written, HTTP, "3 times rspamd")[2:] == ["2.20 times", "**not met**"]
    assert cells(written, "30 times SpamAssassin")[2:] == ["-", "not measured"]
    assert "- listeners, SpamAssassin: no spamd: apt install spamd" in written


def test_a_report_comes_back_as_it_was_saved() -> None:
    report = Report({"cores": "2"}, [Figure("start", "x", "nbstream", RATE, (1.0, 2.0))], [Skip("a", "b", "c")])
    report.add(Report({"Python": "3"}, took={"start": 1.5}))

    assert Report.from_json(report.to_json()) == report
    assert report.machine == {"cores": "2", "Python": "3"}


def test_a_part_that_is_measured_later_takes_the_place_of_the_former_figures() -> None:
    def report(version: str, value: float) -> Report:
        figures = [Figure(part, HTTP, "nbstream", RATE, (value,)) for part in ("listeners", "ways")]
        return Report(
            {"nbstream": version, LOAD: "1, 1"},
            figures,
            [Skip("ways", "x", version)],
            {"listeners": value, "ways": value},
        )

    former = report("one", 1.0)
    former.replace_part("ways", report("two", 2.0))

    assert [(figure.part, figure.values) for figure in former.figures] == [("listeners", (1.0,)), ("ways", (2.0,))]
    assert (former.skips, former.took) == ([Skip("ways", "x", "two")], {"listeners": 1.0, "ways": 2.0})
    assert former.machine == {
        "nbstream": "one",
        LOAD: "1, 1",
        "ways, measured later": "nbstream two, load average 1, 1",
    }


def test_targets_name_existing_parts() -> None:
    assert {target.part for target in TARGETS} | UNTAUGHT <= PARTS.keys()
    assert TEXTS.keys() == PARTS.keys()
    assert all((Path(stages.__file__).with_name(f"{part}.py")).exists() for part in PARTS)


def test_what_wrk_prints_is_answers_and_seconds() -> None:
    line = 'found {"requests": 1200, "microseconds": 2000000, "status": %d, "broken": 0}\n'

    assert read_result(f"Running 2s test\n{line % 0}") == (1200, 2.0)
    with pytest.raises(CannotMeasure, match="not all was answered well"):
        read_result(line % 3)
    with pytest.raises(CannotMeasure, match="unable to connect"):
        read_result("unable to connect to 127.0.0.1:1\n")


def test_what_bogofilter_prints_is_a_verdict_for_each_file() -> None:
    text = (
        "data/1 a.eml X-Bogosity: Spam, tests=bogofilter, spamicity=1.000000, version=1.2.5\n"
        "data/2.eml X-Bogosity: Ham, tests=bogofilter, spamicity=0.000000, version=1.2.5\n"
    )

    assert verdicts(text) == {"data/1 a.eml": "Spam", "data/2.eml": "Ham"}


@pytest.mark.parametrize("make", [sizes.text, sizes.attachment])
def test_generated_mail_has_its_size_and_is_always_the_same(make: Callable[[int], bytes]) -> None:
    raw = make(100_000)

    assert 90_000 < len(raw) < 110_000
    assert raw == make(100_000)
    assert Message.parse(raw).is_mail


def test_mail_for_smtp_ends_with_its_dot_and_no_line_begins_with_one() -> None:
    assert Smtp.request(b".a\n..b\r\nc") == b"..a\r\n...b\r\nc\r\n.\r\n"
    assert Smtp.request(b"a\n") == b"a\r\n.\r\n"


async def test_a_client_sends_each_message_once_and_times_every_answer() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def connect() -> Smtp:
        return await Smtp.greeted(address)

    load = await all_of(connect, [Smtp.request(b"a: b\n\n%d" % number) for number in range(20)], 4)
    paced = await at_rate(connect, [Smtp.request(b"a: b\n\nc")], 200.0, 0.2, connections=2)
    server.close()

    assert len(load.waits) == 20
    assert load.rate == 20 / load.seconds
    assert paced.waits


async def test_a_bad_answer_ends_the_load_with_its_text() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nlate")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def connect() -> Http:
        return await Http.to(address)

    with pytest.raises(CannotMeasure, match="503"):
        await all_of(connect, [Http.request("/", b"")], 1)
    server.close()


def test_a_load_without_answers_has_rate_0_and_an_ended_process_time_0() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    assert cpu_seconds(process.pid) == 0.0
    assert Load(seconds=1.0).rate == 0.0


def small(tmp_path: Path, part: str) -> Bench:
    """A run over letters that takes moments."""
    scale = Scale(
        taught=60,
        checked=20,
        taught_to_spamassassin=20,
        rounds=1,
        seconds=0.2,
        learned=10,
        learned_slowly=2,
        lessons=((1, 3), (4, 5)),
        remembered=(0, 60),
        views=2,
        pairs=1,
        pair_seconds=0.2,
    )
    return Bench(
        part, write_corpus(tmp_path / "corpus", 80), tmp_path, tmp_path, Report({}), tmp_path / "r", scale
    )


def test_the_stages_of_a_check_are_measured(tmp_path: Path, redis_binary: Path) -> None:
    bench = small(tmp_path, "stages")

    stages.run(bench)

    assert bench.report.find("stages", CHECK, CPU_MICROSECONDS)
    assert all(figure.median > 0 for figure in bench.report.figures)
    assert Report.from_json(bench.saved.read_text()) == bench.report


def test_what_a_lesson_costs_redis_is_measured_beside_the_same_increments_alone(
    tmp_path: Path, redis_binary: Path
) -> None:
    bench = small(tmp_path, "lesson")

    lesson.run(bench)

    written = {figure.case: figure.median for figure in bench.report.figures if figure.unit == BYTES_WRITTEN}
    assert written["1 at once"] == pytest.approx(
        sum(v for case, v in written.items() if case.startswith("1 at once:"))
    )
    assert written["64 at once"] < written["4 at once"] < written["1 at once"]
    assert written["1 at once"] < written[f"{lesson.FLOOR}HINCRBY"]
    assert {figure.unit for figure in bench.report.figures} == {CPU_MICROSECONDS, MICROSECONDS, BYTES_WRITTEN}
    stages = {figure.case.partition("through HTTP: ")[2]: figure.median for figure in bench.report.figures}
    assert stages.keys() >= {stage.name for stage in STAGES}
    assert stages[DAEMON] > 0


def test_a_stage_of_a_lesson_is_the_innermost_function_that_belongs_to_one() -> None:
    redis, commit = "site-packages/redis/client.py:execute", "nbstream/store/model/commit.py:commit"
    listener, loop = "nbstream/listeners/http/listener.py:_serve", "asyncio/runners.py:run"

    seconds = seconds_by_stage(
        [([redis, commit, listener, loop], 1.0), (["json.py:loads", listener, loop], 2.0), ([loop], 4.0)]
    )

    assert {stage: used for stage, used in seconds.items() if used} == {
        "client of Redis": 1.0,
        "HTTP": 2.0,
        "event loop": 4.0,
    }


def test_mail_through_the_smtp_listener_is_measured_beside_the_pass_through(
    tmp_path: Path, redis_binary: Path
) -> None:
    bench = small(tmp_path, "listeners")

    listeners.smtp(bench)

    assert {figure.who for figure in bench.report.figures if figure.case == SMTP} == {
        "nbstream",
        "aiosmtpd, aiosmtplib",
    }


def test_mailboxes_are_learned_in_turns_by_all_that_are_installed(tmp_path: Path, redis_binary: Path) -> None:
    bench = small(tmp_path, "learning")

    learning.run(bench)

    skipped = {skip.what.removeprefix(f"{BULK}, ") for skip in bench.report.skips}
    rates = {figure.who for figure in bench.report.figures if (figure.case, figure.unit) == (BULK, RATE)}
    assert rates | skipped == {OURS, *learning.LEARNERS}
    assert {OURS, UNSYNCED} <= rates
    assert bench.report.find("learning", BULK, BYTES_WRITTEN)


def test_http_lessons(  # a short name: sockets lie in the folder of the test
    tmp_path: Path, redis_binary: Path
) -> None:
    bench = small(tmp_path, "feedback")

    feedback.run(bench)

    for connections in (1, 4):
        case = http_lessons(connections)
        assert {OURS, UNSYNCED} <= {
            figure.who for figure in bench.report.figures if (figure.case, figure.unit) == (case, RATE)
        }
        written = bench.report.find("feedback", case, BYTES_WRITTEN)
        assert written
        assert written.median > 0


@pytest.mark.soak  # a daemon and a bare server for each listener; the SMTP listener above is one of them
def test_each_way_is_measured_beside_a_bare_server(tmp_path: Path, redis_binary: Path) -> None:
    bench = small(tmp_path, "ways")

    ways.run(bench)

    assert bench.report.skips == []
    measured = {(figure.case, figure.who) for figure in bench.report.figures if figure.unit == RATE}
    assert {case for case, who in measured if who == "nbstream"} == set(WAYS)
    assert len(measured) == 2 * len(WAYS)


@pytest.mark.soak  # five daemons
def test_the_page_is_measured_alone_and_beside_checks(tmp_path: Path, redis_binary: Path) -> None:
    bench = small(tmp_path, "ui")

    ui.run(bench)

    assert bench.report.skips == []
    measured = {(figure.case, figure.unit) for figure in bench.report.figures}
    assert {(target.case, target.unit) for target in TARGETS if target.part == "ui"} <= measured
    assert (f"{STORED_FOR_PAGE}, CPU", CPU_MILLISECONDS) in measured
    assert [case for case, _ in measured if case.startswith("/ui/messages/ID, 60 messages, p99")]


@pytest.mark.parametrize(
    ("values", "interval"),
    [([3.0], (3.0, 3.0)), ([2.0, 1.0, 5.0, 4.0, 3.0], (1.0, 5.0)), (range(6), (0, 5)), (range(20), (5, 14))],
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(
    values: Sequence[float], interval: tuple[float, float]
) -> None:
    assert median_interval(values) == interval


def test_a_part_that_cannot_be_measured_is_reported_as_skipped(tmp_path: Path) -> None:
    arguments = map(str, (tmp_path / "none", tmp_path, tmp_path, tmp_path / "found.json", ROOT))
    words = [sys.executable, "-m", "tests.benchmarks.speed.part", "stages", *arguments]

    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr
    (skip,) = Report.from_json((tmp_path / "found.json").read_text()).skips
    assert skip.what == "the rest"
    assert "No such file" in skip.why


def test_a_native_library_that_does_not_fit_is_not_replaced_by_the_python_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBSTREAM_ENGINE", raising=False)
    shutil.copytree(ROOT / "nbstream", tmp_path / "nbstream", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    words = [sys.executable, "-m", "tests.benchmarks.speed", str(tmp_path), "--tree", str(tmp_path)]

    def said() -> str:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    assert "has no trec07p-20k.tar.xz" in said()  # without a library Python is measured
    (tmp_path / "nbstream" / "engine" / "libnbstream_native.so").write_bytes(b"of another version")
    assert said().startswith("bench: the native library cannot be loaded")
    assert said().endswith(f"; build it: python -m tools.build_native, in {tmp_path}\n")


def test_without_the_corpora_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBSTREAM_ENGINE", "python")  # whatever library is here
    words = [sys.executable, "-m", "tests.benchmarks.speed", str(tmp_path)]

    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (1, f"bench: {tmp_path} has no trec07p-20k.tar.xz\n")

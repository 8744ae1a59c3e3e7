"""``make bench`` works: small runs over letters written for tests, and the page that is made of what they find."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.speed import feedback, learning, lesson, listeners, stages
from tests.benchmarks.speed.bench import Bench, Scale
from tests.benchmarks.speed.clients import Http, Smtp, all_of, at_rate
from tests.benchmarks.speed.figures import OURS, Figure, Report, Skip
from tests.benchmarks.speed.lesson_stages import DAEMON, STAGES
from tests.benchmarks.speed.page import page
from tests.benchmarks.speed.plan import (
    BOGOFILTER,
    BULK,
    BYTES_WRITTEN,
    CHECK,
    CPU_MICROSECONDS,
    HTTP,
    MICROSECONDS,
    RATE,
    SMTP,
    UNSYNCED,
    http_lessons,
)
from tests.benchmarks.speed.processes import CannotMeasure
from tests.benchmarks.speed.sink import Sink
from tests.letters import write_corpus

ROOT = Path(__file__).parents[2]


def cells(text: str, *words: str) -> list[str]:
    """The one line of a table with these words in it."""
    (line,) = (line for line in text.splitlines() if line.startswith("|") and all(word in line for word in words))
    return [cell.strip() for cell in line.strip("|").split("|")]


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


@pytest.mark.soak  # it starts several daemons
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


@pytest.mark.soak  # it starts several daemons
def test_mail_through_the_smtp_listener_is_measured_beside_the_pass_through(
    tmp_path: Path, redis_binary: Path
) -> None:
    bench = small(tmp_path, "listeners")

    listeners.smtp(bench)

    assert {figure.who for figure in bench.report.figures if figure.case == SMTP} == {
        "nbstream",
        "aiosmtpd, aiosmtplib",
    }


@pytest.mark.soak  # it starts several daemons
def test_mailboxes_are_learned_in_turns_by_all_that_are_installed(tmp_path: Path, redis_binary: Path) -> None:
    bench = small(tmp_path, "learning")

    learning.run(bench)

    skipped = {skip.what.removeprefix(f"{BULK}, ") for skip in bench.report.skips}
    rates = {figure.who for figure in bench.report.figures if (figure.case, figure.unit) == (BULK, RATE)}
    assert rates | skipped == {OURS, *learning.LEARNERS}
    assert {OURS, UNSYNCED} <= rates
    assert bench.report.find("learning", BULK, BYTES_WRITTEN)


@pytest.mark.soak  # it starts several daemons
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

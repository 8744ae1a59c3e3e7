"""``make bench`` works: small runs over letters written for tests, and the page that is made of what they find."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.benchmarks.speed import capacity, feedback, latency, learning, listeners, plan, stages
from tests.benchmarks.speed.bench import Bench, Scale
from tests.benchmarks.speed.clients import Smtp, all_of, at_rate
from tests.benchmarks.speed.figures import OURS, Figure, Report, Skip
from tests.benchmarks.speed.page import page
from tests.benchmarks.speed.plan import (
    BOGOFILTER,
    BULK,
    BYTES_WRITTEN,
    CHECK,
    CPU_MICROSECONDS,
    HTTP,
    RATE,
    SMTP,
    UNSYNCED,
    http_lessons,
)
from tests.benchmarks.speed.sink import Sink
from tests.harness.samples import write_corpus

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
            Figure("stages", CHECK, BOGOFILTER, CPU_MICROSECONDS, (400.0,)),
            Figure("listeners", HTTP, "nbstream", RATE, (1000.0, 1200.0)),
            Figure("listeners", HTTP, "rspamd", RATE, (500.0,)),
        ],
        [Skip("listeners", "SpamAssassin", "no spamd: apt install spamd")],
    )

    written = page(report)

    assert cells(written, BOGOFILTER, CPU_MICROSECONDS)[2:] == ["200", "400", BOGOFILTER, "2.00"]
    assert cells(written, CHECK, "1.7 times bogofilter")[2:] == ["2.00 times", "met"]
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


def small(tmp_path: Path, part: str) -> Bench:
    """A run over letters that takes moments."""
    scale = Scale(
        taught=60,
        checked=10,
        taught_to_spamassassin=20,
        rounds=1,
        seconds=0.2,
        learned=10,
        learned_slowly=2,
        lessons=((1, 3), (4, 5)),
        lesson_rates=(0, 10),
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
def test_waits_beside_other_work_and_the_capacity_of_a_machine_are_measured(
    tmp_path: Path, redis_binary: Path
) -> None:
    bench = small(tmp_path, "latency")

    latency.run(bench)
    bench.part = "capacity"
    capacity.run(bench)

    assert bench.report.find("latency", plan.ratio(plan.BESIDE_LESSONS, "p99"), plan.TIMES)
    assert not bench.report.skips
    assert len([figure for figure in bench.report.figures if figure.part == "capacity"]) == 3 * 2 * 2


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

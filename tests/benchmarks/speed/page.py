"""The page SPEED.md: what was aimed at, and every figure beside those of the peers.

Rules: a figure is the median of its rounds; a target is met or not by it before it is rounded; a ratio says how
many times better nbstream is; what was not measured is told with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.benchmarks.speed.figures import OURS, Figure, Report
from tests.benchmarks.speed.plan import MORE_IS_BETTER, PARTS, TARGETS, Target

TEXT = """\
# Speed

Written by `make bench CORPORA=DIR`, DIR being the folder of the archives. All values of all rounds are in
[SPEED.json](SPEED.json), here are the medians. What stands in one row was measured in turns, and compares.
Where the load average before the run is not near 0, others used the machine: times and rates are then much
worse than on a quiet one, CPU time somewhat. Mail is that of TREC 2007: models know the first 10,000 messages,
and what is checked are those after them. Metrics and logging are on, as users run it.

| | |
| --- | --- |
{facts}
## Targets

{targets}
{parts}"""

TEXTS = {
    "stages": """\
## The check in process

CPU of the process. `check` is what a daemon does with each message from its bytes to its verdict, metrics and
what it sends to Redis to remember included; bare is without these two. What Redis itself spends is in the
figures of the doors. `bogofilter -b` is one process for all messages, its start and reading its files included.
""",
    "sizes": """\
## By the size of the message

Messages made up of random words. A megabyte is looked at (`limits.look_bytes`). Below: small messages, one
after the other through the SMTP door, while one of 20 MB goes through it.
""",
    "doors": """\
## Doors

One worker, four connections, as fast as they are answered. CPU is that of the server with its Redis. rspamd and
SpamAssassin have nothing but their Bayes, and one worker; the client is wrk for HTTP, elsewhere one of asyncio
for both sides. SMTP is without the messages that aiosmtpd refuses for their long lines.
""",
    "latency": """\
## Waits

Messages at random moments, at a share of what the door can do with the same client.
""",
    "learning": """\
## Learning

2,000 messages that the model does not know, each change synced to disk. Reads of Redis: how often it had
something to read of its clients; of those at the door some are the mirror's.
""",
    "start": """\
## Start, memory, idle

Until `/readyz` says yes, with Redis running, and with the embedded Redis started too, which reads its file
first. Bytes a token are those of the process beyond a worker without a model.
""",
    "workers": """\
## Workers

wrk with 16 connections, since the kernel deals them out and of four one worker may get all.
""",
}


def page(report: Report) -> str:
    """The page for a report; parts without figures are left out."""
    sections = [f"{TEXTS[name]}\n{_table(rows)}" for name in PARTS if (rows := _rows(report, name))]
    skips = "".join(f"- {skip.part}, {skip.what}: {skip.why}\n" for skip in report.skips)
    if skips:
        sections.append(f"## Not measured\n\n{skips}")
    facts = "".join(f"| {name} | {value} |\n" for name, value in report.machine.items())
    targets = _table([("", "aimed at", "reached", ""), *_targets(report)])
    return TEXT.format(facts=facts, targets=targets, parts="\n".join(sections))


def _rows(report: Report, part: str) -> list[Sequence[str]]:
    figures = [figure for figure in report.figures if figure.part == part]
    if not figures:
        return []
    rows: list[Sequence[str]] = [("", "", OURS, "peer", "", "times better")]
    for case, unit in dict.fromkeys((figure.case, figure.unit) for figure in figures):
        same = [figure for figure in figures if (figure.case, figure.unit) == (case, unit)]
        ours = next((figure for figure in same if figure.who == OURS), None)
        mine = _number(ours.median) if ours else "-"
        for peer in [figure for figure in same if figure.who != OURS]:
            ratio = _number(better(ours, peer)) if ours else "-"
            rows.append((case, unit, mine, _number(peer.median), peer.who, ratio))
        if len(same) == 1 and ours:
            rows.append((case, unit, mine, "", "", ""))
    return rows


def better(ours: Figure, theirs: Figure) -> float:
    """How many times better ours is."""
    few, many = ours.median, theirs.median
    if theirs.unit in MORE_IS_BETTER:
        few, many = many, few
    return many / few if few else float("inf")


def reached(target: Target, report: Report) -> float | None:
    """Our figure, or how many times better than the other it is; None where it was not measured."""
    ours = report.find(target.part, target.case, target.unit)
    if ours is None:
        return None
    if target.than is None:
        return ours.median
    case, unit, who = target.than
    theirs = report.find(target.part, case, unit, who)
    return better(ours, theirs) if theirs else None


def _targets(report: Report) -> Iterable[Sequence[str]]:
    for target in TARGETS:
        value = reached(target, report)
        if value is None:
            yield target.case, target.aim, "-", "not measured"
            continue
        met = (target.at_least is None or value >= target.at_least) and (
            target.at_most is None or value <= target.at_most
        )
        unit = "times" if target.than else target.unit
        yield target.case, target.aim, f"{_number(value)} {unit}", "met" if met else "**not met**"


def _number(value: float) -> str:
    """Three digits that count, thousands in full."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 if abs(value) < 10 else 1}f}" if abs(value) >= 0.095 or not value else f"{value:.2g}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *others))

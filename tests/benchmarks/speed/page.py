"""The page SPEED.md: the targets, and all figures beside those of the peers.

Rules: a figure is the median of its rounds, and is compared with a target before it is rounded. A ratio says how
many times better nbstream is. The page lists what was not measured, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.benchmarks.speed.figures import OURS, Figure, Report
from tests.benchmarks.speed.plan import MORE_IS_BETTER, PARTS, TARGETS, Target

TEXT = """\
# Speed

Written by `make bench CORPORA=DIR`, DIR being the folder of the archives. All values of all rounds are in
[SPEED.json](SPEED.json); this page has the medians. Figures in one row were measured in turns and can be compared.
If the load average before the run is not near 0, others used the machine: times and rates are then much worse
than on a quiet machine, CPU time somewhat worse. The mail is that of TREC 2007: models have learned the first
10,000 messages, and the messages after them are checked. Metrics and logging are on, as users run the program.

| | |
| --- | --- |
{facts}
## Targets

{targets}
{parts}"""

TEXTS = {
    "stages": """\
## The check in process

CPU of the process. `check` is the work of a daemon from the bytes of a message to its verdict, with metrics and
with remembering the message in Redis; bare is without these two. The CPU of Redis itself is in the figures of the
listeners. `bogofilter -b` is one process for all messages, its start and reading its files included.
""",
    "listeners": """\
## Listeners

One worker, four connections, as fast as they are answered. CPU is that of the server with its Redis. The client
runs on the same cores: where both sides use nearly all of them, the machine is the limit of the rate; the next hop
of SMTP uses them too, and is not counted. rspamd and
SpamAssassin have nothing but their Bayes, and one worker; the client is wrk for HTTP, elsewhere one of asyncio
for both sides. SMTP is without the messages that aiosmtpd refuses for their long lines.
""",
    "learning": """\
## Learning in bulk

Each turn has 2,000 messages that no model knows, the same for all, in an mbox for each class; the slow ones (a
process a message, sa-learn) learn the first 200 of each turn. One start of ours learns both classes (`--and`), and
the peers' start once for each. Ours are durable when the program ends: each change
is synced to disk. The peers sync nothing, and neither does ours without AOF. CPU is that of what learns, with its
Redis: of nbstream, bogofilter, sa-learn and crm114 their processes, of rspamc the server that it sends to; its own
is not counted. Reads of Redis: how often it had something to read from its clients.
""",
    "feedback": """\
## Lessons through HTTP

One lesson a request, one request at a time on each connection; each turn has other messages that no model knows,
the same for all. Ours are synced to disk before each answer; rspamd's controller and its Redis sync nothing, and
the controller closes the connection after each answer. CPU is that of the server with its Redis. Reads of Redis
are also those of the follower.
""",
    "latency": """\
## Waits beside other work

Checks and lessons come at random moments, that many a second on average, to one worker; messages of 20 MB one
after another. CPU is that of the server with its Redis; that of a check beside lessons is without what as many
lessons take alone.
""",
    "capacity": """\
## Capacity of one machine

The highest rate of mail at random moments that was tried (in steps of 15 %) and at which 99 % of the messages were
answered within 50 ms. The client and the next hop use the same cores.
""",
    "start": """\
## Start, memory, idle

The time until `/readyz` answers with 200, once with Redis running, and once with the embedded Redis started too,
which reads its file first. Bytes a token are the memory of the process above that of a worker without a model.
Memory of a worker with tokens is what no other process uses (`Private_*` in `/proc/PID/smaps_rollup`). A further
worker takes the place of one of two that was killed; its time is from the first moment of its process until it is
ready.
""",
}


def page(report: Report) -> str:
    """Return the page for a report; parts without figures are left out."""
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
    """Return how many times better our figure is."""
    few, many = ours.median, theirs.median
    if theirs.unit in MORE_IS_BETTER:
        few, many = many, few
    return many / few if few else float("inf")


def reached(target: Target, report: Report) -> float | None:
    """Return our figure, or how many times better than the other one it is; None if it was not measured."""
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
    """Return a number with three significant digits, thousands in full."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 if abs(value) < 10 else 1}f}" if abs(value) >= 0.095 or not value else f"{value:.2g}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *others))

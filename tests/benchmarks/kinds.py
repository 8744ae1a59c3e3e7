"""How well kinds are told apart, on real mail: ``python -m tests.benchmarks.kinds INDEX ...``.

Ham is a newsletter, a notification or plain ham by the fields that lists and programs write. These fields are
then removed, so that the filter has to find out by the rest. Each message is checked and then taught, in the
order of the index, by a filter with kinds and by one without: every check of the two must agree on P(spam) to the
last bit.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from nbstream.assembly.filter import make_filter
from nbstream.bayes.kinds import MIN_MESSAGES, PLAIN
from nbstream.config import make_settings
from nbstream.filter import Check, Filter
from nbstream.mail.message import Message
from nbstream.policy.verdict import Verdict
from nbstream.store.model.memory_model import MemoryModel

KINDS = (PLAIN, "newsletter", "notification")

_LIST_FIELDS = frozenset(
    {"list-id", "list-post", "list-unsubscribe", "list-subscribe", "list-help", "mailing-list", "x-mailing-list"}
)
_BULK = frozenset({"list", "bulk"})
_AUTOMATIC_SENDER = re.compile(
    r"(no-?reply|do-?not-?reply|root|daemon|cron|mailer-daemon|postmaster|nobody|www-data|apache|notif[a-z]*|alerts?)"
    r"[^@<\s]*@",
    re.IGNORECASE,
)
_HIDDEN = re.compile(
    rb"(list-[a-z-]*|precedence|mailing-list|x-mailing-list|x-beenthere|x-mailman[a-z-]*|x-loop|x-list[a-z-]*"
    rb"|auto-submitted|x-auto-response-suppress|from|sender|reply-to|return-path|errors-to|x-sender)[ \t]*:",
    re.IGNORECASE,
)


def kind_by_header(fields: Mapping[str, str]) -> str:
    """Return the kind that the header tells, by the values of its fields."""
    if fields.keys() & _LIST_FIELDS or fields.get("precedence", "").strip().lower() in _BULK:
        return "newsletter"
    is_automatic = fields.get("auto-submitted", "no").strip().lower() != "no"
    return "notification" if is_automatic or _AUTOMATIC_SENDER.search(fields.get("from", "")) else PLAIN


def without_hidden_fields(raw: bytes) -> bytes:
    """Return the message without the fields that tell its kind."""
    header, end, body = raw.partition(b"\r\n\r\n" if b"\r\n\r\n" in raw else b"\n\n")
    kept: list[bytes] = []
    hides = False
    for line in header.splitlines(keepends=True):
        if line[:1] not in {b" ", b"\t"}:
            hides = _HIDDEN.match(line) is not None
        if not hides:
            kept.append(line)
    return b"".join(kept) + end + body


def _messages(index: Path) -> Iterator[tuple[str, Message]]:
    """Yield the class and the content of each message of an index."""
    for line in index.read_text().splitlines():
        label, _, path = line.partition("\t")
        raw = (index.parent / path).read_bytes()
        fields = {field.name: field.text for field in Message.parse(raw).fields}
        yield label if label == "spam" else kind_by_header(fields), Message.parse(without_hidden_fields(raw))


def _make_filter(classes: tuple[str, ...]) -> Filter:
    model = MemoryModel()
    return make_filter(make_settings({"model": {"classes": list(classes)}}), model, model)


async def measure(index: Path) -> str:
    """Return the report on one stream."""
    with_kinds, without = _make_filter((*KINDS, "spam")), _make_filter(("ham", "spam"))
    confusion: Counter[tuple[str, str]] = Counter()
    differences = messages = 0
    seconds = {with_kinds: 0.0, without: 0.0}
    for class_name, message in _messages(index):
        await without.check(message)  # what is taken apart of the message stays with it: neither of them pays
        checks: list[Check] = []
        for spam_filter in (with_kinds, without):
            began = time.perf_counter()
            checks.append(await spam_filter.check(message))
            seconds[spam_filter] += time.perf_counter() - began
        check, other = checks
        differences += _bits(check) != _bits(other)
        messages += 1
        if check.kinds and class_name in check.kinds.probabilities:
            confusion[class_name, str(check.kinds.kind)] += 1
        await with_kinds.learn(message, class_name, "benchmark")
        await without.learn(message, "spam" if class_name == "spam" else "ham", "benchmark")
    summary = f"{messages} messages, {differences} of them with another P(spam) than without kinds"
    return _report(
        f"{index.parent.name}/{index.name}: {summary}", confusion, seconds[with_kinds] / seconds[without]
    )


def _bits(check: Check) -> tuple[float, float, Verdict]:
    return check.probability, check.score, check.verdict


def _report(summary: str, confusion: Mapping[tuple[str, str], int], time_ratio: float) -> str:
    names = [kind for kind in KINDS if any(confusion[kind, other] for other in KINDS)]
    right, total = sum(confusion[kind, kind] for kind in names), sum(confusion.values())
    lines = [summary, f"{'is':14}" + "".join(f"{kind:>14}" for kind in names) + "    right"]
    recalls: list[float] = []
    for kind in names:
        row = [confusion[kind, other] for other in names]
        recalls.append(confusion[kind, kind] / max(1, sum(row)))
        lines.append(f"{kind:14}" + "".join(f"{n:14}" for n in row) + f"{recalls[-1]:9.1%}")
    mean = sum(recalls) / max(1, len(recalls))
    lines.append(
        f"accuracy {right / max(1, total):.1%}, mean over the kinds {mean:.1%}, of {total} ham checked once its "
        f"kind had {MIN_MESSAGES} messages; a check takes {time_ratio:.2f} x the time without kinds"
    )
    return "\n".join(lines)


def main(indices: list[str]) -> None:
    """Print the report on each stream."""
    for index in indices:
        print(asyncio.run(measure(Path(index))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

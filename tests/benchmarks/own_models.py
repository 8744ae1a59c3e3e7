"""Own models on a built stream: ``python -m tests.benchmarks.own_models INDEX ...`` prints OWN_MODELS.md.

The rule, which was written down before the first run:

- The mail of a corpus is dealt to its users. A mailbox of the corpus' own domain that has 100 messages or more, by
  the first address in Delivered-To, X-Original-To or To, is a user; all other mail goes to 50 users, by the hash
  of its file's name.
- Kinds of mail: the three most frequent mailing lists among the ham (List-Id, X-BeenThere or Mailing-List), and
  two campaigns among the spam: the messages with the most frequent host of a link that no ham has; for the second
  campaign the messages of the first are left out.
- 30 % of the users, by the hash of their name, contradict the common opinion on all five kinds: what is ham for
  the others is spam for them, and the other way round.
- The common model learns the first quarter of the corpus, with the labels of the corpus. After that it is left
  alone, and every user corrects what lies in the wrong folder, at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

from nbstream.assembly.filter import make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.config import Settings, make_settings
from nbstream.engine.choice import choose_engine
from nbstream.evaluation.own_models import ModelMeasures, OwnModelsReport, Step, UserRow, evaluate_own_models
from nbstream.evaluation.run import CachingTokenizer
from nbstream.evaluation.streams import LabelledContent, read_index
from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.store.model.memory_model import MemoryModel

USERS, MAILBOX_MESSAGES = 50, 100
LISTS, CAMPAIGNS = 3, 2
CONTRADICTING_SHARE = 0.3
TAUGHT_SHARE = 0.25
FEW = 3  # corrections after which a verdict is to be right
_ADDRESS = re.compile(r"[\w.+-]+@([\w.-]+)")
_OPPOSITE = {"ham": "spam", "spam": "ham"}


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of the corpus, what the rule needs of it, and what the rule says."""

    label: str
    path: Path
    mailbox: str
    mailing_list: str
    hosts: frozenset[bytes]
    user: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class BuiltStream:
    """The stream; ``contradicting`` are the users who contradict, ``kinds`` has that of a message by its path."""

    messages: Sequence[LabelledContent]
    taught: int
    contradicting: frozenset[str]
    kinds: Mapping[str, str]


def share(*parts: str) -> float:
    """A number from 0 to 1 that belongs to these names."""
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def read_letters(index: Path, settings: Settings) -> Iterator[Letter]:
    """Read the messages of an index."""
    tokenizer = _make_filter(settings).parts.tokenizer
    for label, path, _ in read_index(index, None):
        message = Message.parse(path.read_bytes())
        fields: dict[str, str] = {}
        for field in message.fields:
            fields.setdefault(field.name, field.text)
        recipients = (fields.get(name, "") for name in ("delivered-to", "x-original-to", "to"))
        address = _ADDRESS.search(" ".join(recipients))
        lists = (fields.get(name, "") for name in ("list-id", "x-beenthere", "mailing-list"))
        mailing_list = next(filter(None, lists), "").lower()
        hosts = frozenset(name for name in tokenizer.tokenize(message).body if name.startswith(b"url:"))
        yield Letter(
            label,
            path,
            address[0].lower() if address else "",
            (re.findall(r"<([^>]+)>", mailing_list) or [mailing_list])[-1],
            hosts,
        )


def deal(letters: Sequence[Letter], own_domain: str) -> list[Letter]:
    """Give each message a user and a kind."""
    counts = Counter(letter.mailbox for letter in letters)
    dealt = [
        replace(
            letter,
            user=letter.mailbox
            if letter.mailbox.endswith(own_domain) and counts[letter.mailbox] >= MAILBOX_MESSAGES
            else f"user{int(USERS * share('user', letter.path.name)):02}",
        )
        for letter in letters
    ]
    lists = Counter(letter.mailing_list for letter in letters if letter.label == "ham" and letter.mailing_list)
    frequent = {name for name, _ in lists.most_common(LISTS)}
    of_ham = frozenset[bytes]().union(*(letter.hosts for letter in letters if letter.label == "ham"))
    dealt = [
        replace(letter, kind=letter.mailing_list)
        if letter.label == "ham" and letter.mailing_list in frequent
        else letter
        for letter in dealt
    ]
    for _ in range(CAMPAIGNS):
        free = [letter for letter in dealt if letter.label == "spam" and not letter.kind]
        hosts = Counter(host for letter in free for host in sorted(letter.hosts - of_ham))
        campaign = hosts.most_common(1)[0][0]
        dealt = [
            replace(letter, kind=campaign.decode())
            if letter.label == "spam" and not letter.kind and campaign in letter.hosts
            else letter
            for letter in dealt
        ]
    return dealt


def build_stream(letters: Sequence[Letter]) -> BuiltStream:
    """Build the stream of dealt messages."""
    users = sorted({letter.user for letter in letters}, key=lambda user: share("contradicts", user))
    contradicting = frozenset(users[: round(CONTRADICTING_SHARE * len(users))])
    taught = round(TAUGHT_SHARE * len(letters))
    messages = [
        LabelledContent(
            _OPPOSITE[letter.label]
            if n >= taught and letter.kind and letter.user in contradicting
            else letter.label,
            letter.path.read_bytes(),
            str(letter.path),
            letter.user,
        )
        for n, letter in enumerate(letters)
    ]
    return BuiltStream(messages, taught, contradicting, {str(letter.path): letter.kind for letter in letters})


def _make_filter(settings: Settings) -> Filter:
    model = MemoryModel()
    return make_filter(
        settings, model, model, wrap_tokenizer=CachingTokenizer, engine=choose_engine(settings.engine)
    )


def wrong_by_pair(rows: Sequence[UserRow], stream: BuiltStream) -> list[list[bool]]:
    """Whether the own model was wrong, by message, for each pair of a contradicting user and a kind in order."""
    pairs: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in rows:
        if row.user in stream.contradicting and (kind := stream.kinds[row.name]):
            pairs[row.user, kind].append(row.blended.called_spam != (row.label == "spam"))
    return [wrong for wrong in pairs.values() if len(wrong) > FEW]


def _row(name: str, step: Step) -> str:
    cells = (name, str(step.common.messages), _cell(step.common), _cell(step.blended), _cell(step.alone))
    return f"| {' | '.join(cells)} |"


def _cell(one: ModelMeasures) -> str:
    auc = "-" if one.one_minus_auc is None else f"{one.one_minus_auc:.4f}"
    return " / ".join((auc, *("-" if value is None else f"{value:.2f}" for value in (one.hm, one.sm))))


async def measure(index: Path, own_domain: str) -> str:
    """Return the section of the page on one corpus."""
    settings = make_settings({})
    letters = deal(list(read_letters(index, settings)), own_domain)
    stream = build_stream(letters)
    rows = await evaluate_own_models(
        lambda: _make_filter(settings), stream.messages, stream.taught, make_message_reader(settings)
    )
    agreeing = [row for row in rows if row.user not in stream.contradicting]
    contradicting = [row for row in rows if row.user in stream.contradicting]
    on_kinds = [row for row in contradicting if stream.kinds[row.name]]
    on_others = [row for row in contradicting if not stream.kinds[row.name]]
    report = OwnModelsReport.from_rows(rows)
    pairs = wrong_by_pair(rows, stream)
    corrections = [sum(wrong) for wrong in pairs]
    parts = {
        "all": rows,
        "users who agree": agreeing,
        "users who contradict, other mail": on_others,
        "users who contradict, the five kinds": on_kinds,
    }
    kinds = Counter(kind for kind in stream.kinds.values() if kind)
    return "\n".join(
        [
            f"## {index.parent.name}",
            "",
            f"{len(rows)} messages after the {stream.taught} that the common model learned, {report.users} users, "
            f"{len(stream.contradicting)} of whom contradict; {report.corrections} corrections. Kinds: "
            f"{', '.join(f'{kind} ({n})' for kind, n in kinds.most_common())}.",
            "",
            "| mail | messages | common alone | own over common | own alone |",
            "|---|---|---|---|---|",
            *(_row(name, OwnModelsReport.from_rows(part).whole) for name, part in parts.items()),
            *(_row(f"from {step.corrections} corrections on", step) for step in report.steps),
            "",
            f"Contradicted kinds: of {len(pairs)} pairs of a user and a kind with more than {FEW} messages, "
            f"{sum(n <= FEW for n in corrections)} needed at most {FEW} corrections in the whole stream "
            f"(median {median(corrections):g}, mean {mean(corrections):.1f}, most {max(corrections)}).",
        ]
    )


def main(arguments: list[str]) -> None:
    """Print the page; an argument is an index, or an index and its own domain: ``INDEX=DOMAIN``."""
    print("# Own models on a built stream\n")
    print(
        "(1-AUC)% / hm% / sm% at the default thresholds. From so many corrections on: the messages before which\n"
        "their user had given so many, up to the next line; for the own model alone, those with as many of its\n"
        "own. It calls nothing spam before it has learned `model.min_learned` messages. How the stream is built\n"
        "is told in `own_models.py`, which writes this page."
    )
    for argument in arguments:
        index, _, domain = argument.partition("=")
        print(f"\n{asyncio.run(measure(Path(index), domain or '?'))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

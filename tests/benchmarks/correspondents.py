"""Whom we know, measured: ``python -m tests.benchmarks.correspondents INDEX ...`` prints a table.

The rules, which were written down before the first run:

- Each stream is checked and learned message by message, once with the tokens of whom we know and once without; the
  built one also by who teaches the first 500 messages alone.
- **Threads**: the corpus as it is. The senders of ham are our users: a message of theirs counts as sent by us when
  it has been learned. There are no trusted Authentication-Results, and so no known senders.
- **Built**: the corpus with fields that both runs see. The server proves 80 % of ham and half of spam, for the
  domain in From. Of ham, by the hash of its name, 15 % answer a message that a user of ours wrote to its sender
  just before (for most of these senders the first one), and of 15 % the sender got a message from us before. Of
  spam 2 % forge the address of somebody we know, without proof; half of these name a Message-ID of ours that they
  made up. 0.5 % come from a stolen account of somebody we know, proved, and answer a message of ours; 0.5 % name a
  public Message-ID of ours, from elsewhere.
- **On by default** if on no stream (1-AUC)% rises by more than a tenth, more ham is lost, or more than one spam in
  a thousand more is missed; and if of the forged spam no more is missed.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import numpy as np

from nbstream.assembly.filter import make_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.bayes.multinomial import token_log_ratios
from nbstream.config import Settings, make_settings
from nbstream.correspondents.facts import DAY_SECONDS, CorrespondentFacts, FactHasher, KnownTime
from nbstream.correspondents.sent_mail import MAX_RECIPIENTS, SentMail, read_date, read_message_ids
from nbstream.engine.choice import choose_engine
from nbstream.evaluation.measures import one_minus_auc_percent
from nbstream.evaluation.run import CachingTokenizer, EvaluationOptions, EvaluationRow, evaluate
from nbstream.evaluation.streams import LabelledContent, read_index
from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.policy.sender_lists import find_addresses
from nbstream.store.model.memory_model import MemoryModel

LIMIT = 6000
"""How many messages of each corpus are used, the first ones."""

_SERVER = b"mx.example.org"
_ADDRESS = re.compile(rb"(?mi)^from:.*?([\w.+-]+@([\w-]+(?:\.[\w-]+)+))")
_CITING = re.compile(rb"(?mi)^(?:in-reply-to|references):.*\n(?:[ \t].*\n)*")
_KNOWN = ("known.answer", "known.answer.other", "known.sender")


def share(purpose: str, name: str) -> float:
    """A number from 0 to 1 that belongs to these names."""
    digest = hashlib.blake2b(f"{purpose}\n{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass
class Site:
    """What is known so far: where it is ``used``, it is recorded."""

    used: bool
    facts: CorrespondentFacts = field(
        default_factory=lambda: CorrespondentFacts(
            FactHasher(b"k" * 32), KnownTime(90 * DAY_SECONDS, 365 * DAY_SECONDS, 1_000_000)
        )
    )
    partners: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)

    def write_to(self, recipients: tuple[str, ...], message_id: bytes, at: float) -> None:
        """Record a message of a user."""
        if self.used and 0 < len(recipients) <= MAX_RECIPIENTS:
            self.facts.add(self.facts.hasher.hash_sent(SentMail("user", recipients, message_id, at)))


def threads(index: Path, site: Site, _: dict[str, str]) -> Iterator[LabelledContent]:
    """The corpus, in which the senders of ham are users of ours."""
    for label, path, _user in read_index(index, LIMIT):
        raw = path.read_bytes()
        yield LabelledContent(label, raw, str(path))
        message = Message.parse(raw)
        fields = {each.name: each for each in reversed(message.fields)}
        sender = find_addresses([fields["from"].value]) if "from" in fields else []
        if label == "ham" and sender:
            recipients = find_addresses(fields[name].value for name in ("to", "cc") if name in fields)
            ids = read_message_ids(fields["message-id"]) if "message-id" in fields else ()
            at = read_date(fields["received"]) if "received" in fields else None
            site.write_to(tuple(recipients), ids[0] if ids else b"", at or time.time())


def built(index: Path, site: Site, kinds: dict[str, str]) -> Iterator[LabelledContent]:
    """The built stream; ``kinds`` gets what each message is, by its name."""
    for number, (label, path, _user) in enumerate(read_index(index, LIMIT)):
        raw = path.read_bytes().replace(b"\r\n", b"\n")
        head, blank, body = raw.partition(b"\n\n")
        name, draw = str(path), share("kind", path.name)
        match = _ADDRESS.search(head)
        address = match[1].lower() if match else b"nobody@none.example"
        domain = address.rpartition(b"@")[2]
        proved, cited = share("proof", path.name) < (0.8 if label == "ham" else 0.5), b""
        head = _CITING.sub(b"", head + b"\n").rstrip(b"\n") if draw < 0.3 else head
        if label == "ham" and draw < 0.3:
            kinds[name] = "ham: answer" if draw < 0.15 else "ham: known sender"
            cited = f"{hashlib.sha256(path.name.encode()).hexdigest()[:24]}@site.example".encode()
            site.write_to((address.decode(),), cited, time.time() - DAY_SECONDS)
            site.partners.append((address, domain, cited))
            cited = cited if draw < 0.15 else b""
        elif label == "spam" and site.partners and draw < 0.03:
            partner, partner_domain, message_id = site.partners[number % len(site.partners)]
            if draw < 0.025:
                kinds[name] = "spam: forged" if draw < 0.02 else "spam: stolen account"
                head = head.replace(match[1], partner, 1) if match else head + b"\nFrom: " + partner
                proved, domain = draw >= 0.02, partner_domain
                cited = message_id if proved else b"0123456789abcdef@site.example" if draw < 0.01 else b""
            else:
                kinds[name] = "spam: public id"
                cited = message_id
        result = b"dkim=pass header.d=" + domain if proved else b"dkim=none"
        fields = b"Authentication-Results: %s; %s\nReceived: from x by %s; %s\n"
        top = fields % (_SERVER, result, _SERVER, formatdate().encode())
        reply = b"\nIn-Reply-To: <" + cited + b">" if cited else b""
        yield LabelledContent(label, top + head.lstrip(b"\n") + reply + blank + body, name)


Stream = Callable[[Path, Site, dict[str, str]], Iterator[LabelledContent]]


def make(settings: Settings, site: Site) -> Filter:
    """A filter over a model in memory that knows what the site knows."""
    engine = choose_engine("auto")
    model = MemoryModel()
    return make_filter(
        settings, model, model, wrap_tokenizer=CachingTokenizer, known=lambda: site.facts, engine=engine
    )


async def run(stream: Stream, index: Path, regime: str, *, used: bool) -> tuple[list[str], dict[str, str]]:
    """The cells of one row, and those of the kinds of the built stream."""
    settings = make_settings({"trusted_authserv_ids": [_SERVER.decode()]})
    site, kinds = Site(used), dict[str, str]()
    spam_filter = make(settings, site)
    weights: dict[str, float] = {}
    messages, options = stream(index, site, kinds), EvaluationOptions(regime)
    rows = (await evaluate(spam_filter, messages, options, make_message_reader(settings))).rows
    for token in _KNOWN:
        counts, totals = await spam_filter.parts.counts.look_up([token.encode()])
        weights[token] = float(token_log_ratios(counts, totals)[0]) if counts.any() else 0.0
    is_spam = np.array([row.label == "spam" for row in rows])
    called = np.array([row.verdict.is_spam for row in rows])
    auc = one_minus_auc_percent(is_spam, np.array([row.score for row in rows]))
    cells = [f"{auc:.4f}", str(int((called & ~is_spam).sum())), str(int((~called & is_spam).sum()))]
    cells += [f"{weights[token]:+.1f}" if weights[token] else "-" for token in _KNOWN]
    return cells, {kind: _wrong(rows, kinds, kind) for kind in sorted(set(kinds.values()))}


def _wrong(rows: tuple[EvaluationRow, ...], kinds: dict[str, str], kind: str) -> str:
    of_kind = [row for row in rows if kinds.get(row.name) == kind]
    wrong = sum(row.verdict.is_spam != (row.label == "spam") for row in of_kind)
    return f"{wrong} of {len(of_kind)}"


async def measure(index: Path) -> None:
    """Print the rows of one corpus."""
    cases: list[tuple[str, Stream, str]] = [
        ("threads", threads, "immediate"),
        ("built", built, "immediate"),
        ("built, the first 500 taught", built, "first:500"),
    ]
    for name, stream, regime in cases:
        for used in (False, True):
            cells, parts = await run(stream, index, regime, used=used)
            print(
                f"| {index.parent.name} {name} | {'with' if used else 'without'} | {' | '.join(cells)} |",
                flush=True,
            )
            for kind, wrong in parts.items():
                print(f"  {kind}: {wrong}", flush=True)


def main(arguments: list[str]) -> None:
    """Print the table; the arguments are indices."""
    print("| stream | tokens | (1-AUC)% | ham lost | spam missed | answer | answer.other | sender |")
    print("|---|---|---|---|---|---|---|---|")
    for argument in arguments:
        asyncio.run(measure(Path(argument)))


if __name__ == "__main__":
    main(sys.argv[1:])

"""What other filters have learned, as a layer of counts above ours."""

from __future__ import annotations

import copy
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nbstream.assembly.filter import make_filter
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, ClassCounts, Totals
from nbstream.config import make_settings
from nbstream.engine.choice import choose_engine
from nbstream.evaluation import measures
from nbstream.evaluation.run import CachingTokenizer
from nbstream.evaluation.streams import IndexLine
from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.store.model.memory_model import MemoryModel
from tests.benchmarks.other_filters.teaching import SECONDS, spamassassin_database, teach_bogofilter
from tests.benchmarks.speed.processes import CannotMeasure, program

NEWEST = (500, 50)
SHARES = (1.0, 0.1)
_SOURCE = "evaluate"
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)+")
_MARKS = re.compile(r"[^\w:*]", re.ASCII)
_BOGOFILTER_FIELDS = {
    "subj": ("subject",),
    "from": ("from", "from.name"),
    "to": ("to", "to.name", "cc", "cc.name"),
    "rtrn": ("return-path",),
    "rcvd": ("received",),
}
_SPAMASSASSIN_FIELDS = {"from": "*F", "to": "To", "cc": "Cc", "reply-to": "*R", "return-path": "*p"}


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of the stream with its label."""

    label: str
    path: Path
    message: Message


@dataclass(frozen=True, slots=True)
class Dump:
    """What a filter has learned: messages and tokens of (ham, spam), and how to find the counts of our tokens."""

    messages: tuple[int, int]
    token_counts: tuple[int, int]
    vocabulary: int
    of_ours: Mapping[bytes, tuple[int, int]]

    def layer(self, share: float) -> MemoryModel:
        """Return the layer above the model, in which each count weighs ``share``."""
        counts, unit = ClassCounts(), round(WEIGHT_ONE * share)
        rows = np.array(list(self.of_ours.values()), np.int64).reshape(-1, len(CLASSES)) * unit
        counts.set_counts(list(self.of_ours), rows)
        weights = tuple(unit * count for count in self.token_counts)
        counts.set_totals(Totals(self.messages, weights, self.vocabulary))
        return MemoryModel(counts=counts)


def bogofilter_dump(taught: Sequence[IndexLine], ours: Iterable[bytes]) -> Dump:
    """Teach bogofilter, and return what ``bogoutil -d`` says."""
    with tempfile.TemporaryDirectory() as folder:
        words: list[str | Path] = [program("bogoutil", "bogofilter"), "-d", teach_bogofilter(Path(folder), taught)]
        dump = subprocess.run(words, capture_output=True, check=True, timeout=SECONDS).stdout
    found: dict[bytes, tuple[int, int]] = {}
    messages, sums, vocabulary = (0, 0), [0, 0], 0
    for line in dump.decode(errors="replace").split("\n")[:-1]:
        token, spam, ham, _ = line.rsplit(" ", 3)
        if token == ".MSG_COUNT":
            messages = (int(ham), int(spam))
        elif not token.startswith("."):
            vocabulary += 1
            sums[0] += int(ham)
            sums[1] += int(spam)
            for name in _our_names(token.lower()):
                former = found.get(name, (0, 0))
                found[name] = former[0] + int(ham), former[1] + int(spam)
    return Dump(messages, (sums[0], sums[1]), vocabulary, {name: found[name] for name in ours if name in found})


def _our_names(token: str) -> list[bytes]:
    prefix, colon, rest = token.partition(":")
    names = [f"{name}:{rest}" for name in _BOGOFILTER_FIELDS.get(prefix, ())] if colon else [f"body:{token}"]
    if not colon and _HOST.fullmatch(token):
        names.append(f"url:{token}")
    return [name.encode() for name in names]


def spamassassin_dump(taught: Sequence[IndexLine], ours: Iterable[bytes]) -> Dump:
    """Teach sa-learn, and return what ``sa-learn --backup`` says of our tokens, each hashed."""
    learn = program("sa-learn", "spamassassin")
    with tempfile.TemporaryDirectory() as folder:
        words: list[str | Path] = [
            learn,
            "--local",
            "--dbpath",
            spamassassin_database(Path(folder), taught),
            "--backup",
        ]
        dump = subprocess.run(words, capture_output=True, check=True, timeout=SECONDS).stdout
    by_hash: dict[bytes, tuple[int, int]] = {}
    messages, sums = {"num_nonspam": 0, "num_spam": 0}, [0, 0]
    for line in dump.decode().splitlines():
        kind, *values = line.split("\t")
        if kind == "v":
            messages[values[1]] = int(values[0])
        elif kind == "t":
            spam, ham, _, token = values
            by_hash[bytes.fromhex(token)] = int(ham), int(spam)
            sums[0] += int(ham)
            sums[1] += int(spam)
    found: dict[bytes, tuple[int, int]] = {}
    for name in ours:
        rows = [by_hash[key] for key in {_hash(token) for token in _their_tokens(name)} if key in by_hash]
        if rows:
            found[name] = sum(ham for ham, _ in rows), sum(spam for _, spam in rows)
    return Dump((messages["num_nonspam"], messages["num_spam"]), (sums[0], sums[1]), len(by_hash), found)


def _hash(token: str) -> bytes:
    return hashlib.sha1(token.encode(), usedforsecurity=False).digest()[-5:]


def _their_tokens(name: bytes) -> list[str]:
    """Return the tokens that SpamAssassin makes where we make the token ``name``."""
    prefix, _, word = name.decode(errors="replace").partition(":")
    field, _, is_name = prefix.partition(".")
    if prefix in {"body", "subject"}:  # the subject is the first line of what it reads as the body
        return [word if len(word) <= 15 else f"sk:{word[:7]}"]
    if prefix == "url":
        return [f"UD:{word}"]
    if prefix == "received":
        return [f"H*r:{word}"]
    if field in _SPAMASSASSIN_FIELDS and is_name in {"", "name"}:
        kind = f"H{_SPAMASSASSIN_FIELDS[field]}"
        if is_name:
            return [f"{kind}:N*{case}" for case in (word, word.title(), word.upper())]
        local, at, _ = word.partition("@")
        return [f"{kind}:U*{local}" if at else f"{kind}:D*{word}"]
    return []


def new_filter(layer: MemoryModel | None = None) -> Filter:
    """Return a filter over an empty model, below the layer if there is one."""
    settings, model = make_settings({}), MemoryModel()
    made = make_filter(
        settings, model, model, wrap_tokenizer=CachingTokenizer, engine=choose_engine(settings.engine)
    )
    return made if layer is None else Filter(replace(made.parts, parents=(layer,)), made.policy)


async def figures(spam_filter: Filter, letters: Sequence[Letter], *, errors_only: bool) -> str:
    """Check and learn the letters, and return (1-AUC)%, sm at hm 0.1 %, ham lost and spam missed."""
    scores, called = [], []
    for letter in letters:
        check = await spam_filter.check(letter.message)
        scores.append(check.score)
        called.append(check.verdict.is_spam)
        if not errors_only or check.state.is_learning or called[-1] != (letter.label == "spam"):
            await spam_filter.learn(letter.message, letter.label, _SOURCE)
    is_spam = np.array([letter.label == "spam" for letter in letters])
    called_spam = np.array(called)
    auc = measures.one_minus_auc_percent(is_spam, np.array(scores))
    missed = measures.fn_at_fp_percent(is_spam, np.array(scores), 0.001)
    lost, passed = int(called_spam[~is_spam].sum()), int((~called_spam[is_spam]).sum())
    return f"{auc:.4f} / {missed:.2f} / {lost} / {passed}"


def newest(letters: Sequence[Letter], number: int) -> list[Letter]:
    """Return the newest ``number`` letters of each class, in their order."""
    chosen = [[letter for letter in letters if letter.label == label][-number:] for label in CLASSES]
    keep = {letter.path for one in chosen for letter in one}
    return [letter for letter in letters if letter.path in keep]


async def rows(taught_lines: Sequence[IndexLine], lines: Sequence[IndexLine]) -> AsyncIterator[str]:
    """Yield the rows of the table: what was known before ``lines``, and the figures of both regimes."""
    taught, following = _read(taught_lines), _read(lines)
    ways: dict[str, tuple[Sequence[Letter], MemoryModel | None]] = {"nothing": ([], None)}
    ways |= {f"the newest {n} of each": (newest(taught, n), None) for n in NEWEST}
    ways["all learned again"] = taught, None
    tokenizer = new_filter().parts.tokenizer
    ours = {token for letter in (*taught, *following) for token in tokenizer.tokenize(letter.message).all.names}
    for name, dump_of in (("bogofilter", bogofilter_dump), ("SpamAssassin", spamassassin_dump)):
        try:
            dump = dump_of(taught_lines, ours)
        except CannotMeasure as error:
            print(f"skipped: {name}: {error}", file=sys.stderr)
            continue
        for share in SHARES:
            ways[f"import of {name}, weight {share:g}"] = [], dump.layer(share)
        ways[f"the newest {NEWEST[0]} below an import of {name}"] = newest(taught, NEWEST[0]), dump.layer(1.0)
    for name, (lessons, layer) in ways.items():
        spam_filter = new_filter(layer)
        for letter in lessons:
            await spam_filter.learn(letter.message, letter.label, _SOURCE)
        cells = []
        for errors_only in (False, True):
            model = copy.deepcopy(spam_filter.parts.model)
            assert isinstance(model, MemoryModel)
            parts = replace(spam_filter.parts, model=model, counts=model)
            cells.append(await figures(Filter(parts, spam_filter.policy), following, errors_only=errors_only))
        yield f"| {name} | {' | '.join(cells)} |"


def _read(lines: Sequence[IndexLine]) -> list[Letter]:
    return [Letter(line.label, line.path, Message.parse(line.path.read_bytes())) for line in lines]

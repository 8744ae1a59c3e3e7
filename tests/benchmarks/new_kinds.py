"""Mail of a kind that was never taught: how much ham is lost, and what it costs in missed spam.

Rules: a member of a family is a model that was taught everything but one kind of ham, and is then tested on it.
The ham of the kind is not in what is taught, and neither is the tested spam where both come from one corpus.
Header fields and ``kinds.tsv`` tell the kinds. All draws are the same each time; a figure of a family is the
mean over its members, and its interval is that of a bootstrap over them.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from nbstream.bayes.table_counts import make_counts
from nbstream.daemon.assembly.filter import make_filter, make_model_tokenizer
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.daemon.config import Settings
from nbstream.engine.choice import choose_engine
from nbstream.evaluation.streams import read_index
from nbstream.filter import Filter, LabelledMessage, TokenizedMessage
from nbstream.mail.addresses import read_from
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.policy.verdict import decide_verdict
from nbstream.store.model.memory_model import MemoryModel
from nbstream.tokens.tokenizer import Tokenizer, text_kind
from tests.benchmarks.page import table

TREC, TREC_B, SPAMASSASSIN, LISTS, EVERYDAY = (
    "trec07p-20k", "trec07p-b", "spamassassin", "lists-2019-2022", "everyday-a",
)  # fmt: skip
CORPORA = (TREC, TREC_B, SPAMASSASSIN, LISTS, EVERYDAY)

LABELS = (0, 1, 3, 10, 30)
"""After how many labels of the kind the model is tested."""

FILTERS = ("nbstream", "without the discount", "bogofilter", "SpamAssassin")
FAMILIES = {
    "bulk": "HTML ham that is no list mail",
    "lists": "mail of lists",
    "comm": "commercial kinds of everyday ham, or all of it in HTML",
    "kind": "one kind of kinds.tsv",
    "source": "a quarter of the lists",
    "domain": "sixty domains of From",
    "site": "nothing of the tested site was taught",
    "old ham": "ham years older than the spam",
}
_COMMERCIAL = frozenset(
    ("newsletter", "notification", "invoice", "shipping", "ticket", "bank", "travel", "invite", "court-notice")
)
_SITES = (
    ((LISTS,), EVERYDAY), ((SPAMASSASSIN,), EVERYDAY), ((LISTS, SPAMASSASSIN), EVERYDAY), ((TREC,), EVERYDAY),
    ((TREC,), LISTS), ((SPAMASSASSIN,), LISTS), ((TREC_B,), LISTS), ((TREC,), SPAMASSASSIN),
    ((SPAMASSASSIN,), TREC), ((LISTS,), TREC_B),
)  # fmt: skip
"""What is taught, and what is tested."""

_TESTED = 250  # messages of each class
_MIN_KIND = 9  # ham of a kind, of which a third is labelled
_TAUGHT_SHARE = 0.75  # of a stream; the tested spam comes after it
_DOMAINS, _MIN_OF_DOMAIN = 60, 4
_SOURCES = 4
_RESAMPLES = 2000
_LIST_FIELDS = frozenset(("list-id", "list-post", "mailing-list", "x-mailing-list"))
_SPAMASSASSIN_BAYES = Path(__file__).with_name("spamassassin_bayes.pl")
_BAYES_99 = 0.99
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")

TEXT = f"""\
## Mail of a kind that was never taught

One kind of ham is left out of what is taught, and then tested: at most {_TESTED} ham of it, and as many later
spam. Labels: how many ham of the kind were taught after that. Lost: ham called spam; missed: spam not called spam,
in percent, as means over the members of a family, with the interval of 95 % of a bootstrap over the members in
brackets. Without the discount: the same model where mail unlike learned spam is treated like any other. bogofilter
and SpamAssassin's Bayes alone learn the same messages; bogofilter has its default thresholds, and of SpamAssassin
spam is what gets BAYES_99, P of 0.99 and more. A member with few ham of its kind has no row for many labels.

"""


@dataclass(frozen=True, slots=True)
class Mail:
    """A message of a corpus: where it is, its label, and what it is grouped by.

    ``domain`` is that of From, ``year`` that of Date, 0 where it has none. ``kind`` and ``source`` are those of
    ``kinds.tsv``, empty without one.
    """

    path: str
    label: str
    domain: str
    is_list_mail: bool
    has_html: bool
    year: int
    kind: str
    source: str

    @property
    def is_ham(self) -> bool:
        """Whether it is ham."""
        return self.label == "ham"


Corpus: TypeAlias = Sequence[Mail]
Rates: TypeAlias = "tuple[float, float]"
"""The ham lost and the spam missed, in percent."""


@dataclass(frozen=True, slots=True)
class Member:
    """What is taught, the ham of the kind that is labelled after that, and what is tested."""

    family: str
    name: str
    taught: Corpus
    labelled: Corpus
    ham: Corpus
    spam: Corpus

    @property
    def levels(self) -> list[int]:
        """How many of the kind are labelled when it is tested."""
        return [level for level in LABELS if level <= len(self.labelled)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rates of one member after so many labels, by filter."""

    family: str
    labels: int
    rates: Mapping[str, Rates]


def section(indexes: Mapping[str, Path]) -> str:
    """Measure the corpora with these indexes, and return the section of the page, with what was left out."""
    started = time.monotonic()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        names = [name for name in CORPORA if name in indexes]
        corpora = dict(zip(names, pool.map(read_corpus, (indexes[name] for name in names)), strict=True))
        planned = list(members(corpora))
        outcomes: list[Outcome] = []
        # The largest begin first, so that no process waits long for the last one.
        runs = {pool.submit(measure, each): each for each in sorted(planned, key=_size, reverse=True)}
        for number, run in enumerate(as_completed(runs), start=1):
            outcomes += run.result()
            member, (lost, missed) = runs[run], run.result()[0].rates[FILTERS[0]]
            passed = f"{number} of {len(runs)}, {time.monotonic() - started:.0f} s"
            print(
                f"{passed}: {member.family}, {member.name}: lost {lost:.1f}, missed {missed:.1f}", file=sys.stderr
            )
    heads = "left out | members | labels | " + " | ".join(f"{name}: lost | missed" for name in FILTERS)
    left_out = [f"Skipped, because it is not there: {name}.\n" for name in CORPORA if name not in indexes]
    left_out += [f"Skipped, because it is not installed: {name}.\n" for name in PEERS if not is_installed(name)]
    return "\n".join([TEXT + table(heads, rows(outcomes)), *left_out])


def _size(member: Member) -> int:
    return len(member.taught)


def read_corpus(index: Path) -> list[Mail]:
    """Return the messages of an index, in its order."""
    file = index.with_name("kinds.tsv")
    lines = (line.split("\t") for line in file.read_text().splitlines()) if file.is_file() else ()
    kinds = {path: (kind, source) for path, _, kind, source, *_ in lines}
    corpus = []
    for label, path in read_index(index, None):
        message = make_message_reader(_settings()).read_incoming(path.read_bytes())
        addresses, date = read_from(message.fields)[0], message.first_field("date")
        year = _YEAR.search(date.text) if date else None
        kind, source = kinds.get(str(path.relative_to(index.parent)), ("", ""))
        corpus.append(
            Mail(
                str(path),
                label,
                addresses[0].rpartition("@")[2] if addresses else "",
                any(field.name in _LIST_FIELDS for field in message.fields),
                any(text_kind(part) == "html" for part in message.parts),
                int(year[0]) if year else 0,
                kind,
                source,
            )
        )
    return corpus


def members(corpora: Mapping[str, Corpus]) -> Iterator[Member]:
    """Yield the members of all families for which the corpora are there, and which have ham and spam to test."""
    for member in _all_members(corpora):
        if member and member.labelled and member.spam:
            yield member


def _all_members(corpora: Mapping[str, Corpus]) -> Iterator[Member | None]:
    old = [name for name in (TREC, TREC_B, SPAMASSASSIN) if name in corpora]
    for name in old:
        yield _left_out("bulk", name, corpora[name], lambda mail: mail.has_html and not mail.is_list_mail)
        yield _left_out("lists", name, corpora[name], lambda mail: mail.is_list_mail)
    yield from _everyday_members(corpora)
    for name in (*old, *(name for name in (LISTS,) if name in corpora)):
        domains = _drawn_domains(corpora[name], name)
        yield _left_out("domain", name, corpora[name], _has("domain", domains))
    lists = corpora.get(LISTS, ())
    for kind in sorted({mail.kind for mail in lists if mail.is_ham}):
        yield _left_out("kind", f"{LISTS}, {kind}", lists, _has("kind", {kind}))
    sources = sorted({mail.source for mail in lists if mail.is_ham})
    for number in range(_SOURCES):
        some = frozenset(sources[number::_SOURCES])
        yield _left_out("source", f"{LISTS}, quarter {number + 1}", lists, _has("source", some))
    for taught, tested in _SITES:
        if {*taught, tested} <= set(corpora):
            everything = [mail for name in taught for mail in corpora[name]]
            yield _tested("site", f"{' and '.join(taught)}, then {tested}", everything, corpora[tested])
    yield from _old_ham_members(corpora)


def _everyday_members(corpora: Mapping[str, Corpus]) -> Iterator[Member | None]:
    """Yield what is left out of everyday mail, which is shuffled: its spam is not spread over its years."""
    mails = list(corpora.get(EVERYDAY, ()))
    random.Random(EVERYDAY).shuffle(mails)
    for other in ((), (SPAMASSASSIN,), (LISTS,)):
        if all(name in corpora for name in other):
            before = [mail for name in other for mail in corpora[name]]
            name = " after ".join((EVERYDAY, *other))
            yield _left_out("comm", name, mails, lambda mail: mail.kind in _COMMERCIAL, before)
            yield _left_out("comm", f"{name}, HTML", mails, lambda mail: mail.has_html, before)
    for kind in sorted({mail.kind for mail in mails if mail.is_ham}):
        yield _left_out("kind", f"{EVERYDAY}, {kind}", mails, _has("kind", {kind}))


def _old_ham_members(corpora: Mapping[str, Corpus]) -> Iterator[Member | None]:
    lists = corpora.get(LISTS, ())
    spam = [mail for mail in lists if not mail.is_ham and mail.year == 2021]
    new = [mail for mail in lists if mail.year == 2022]
    old = [mail for mail in lists if mail.is_ham and mail.year in {2019, 2020}]
    yield _tested("old ham", f"{LISTS} of 2019 and 2020", old + spam, new)
    for name in (SPAMASSASSIN, TREC):
        older = [mail for mail in corpora.get(name, ()) if mail.is_ham]
        yield _tested("old ham", name, older + spam, new) if older else None


def _drawn_domains(corpus: Corpus, name: str) -> frozenset[str]:
    counts = Counter(mail.domain for mail in corpus if mail.is_ham and mail.domain)
    domains = [domain for domain, count in counts.items() if count >= _MIN_OF_DOMAIN]
    return frozenset(random.Random(name).sample(domains, min(_DOMAINS, len(domains))))


def _has(name: str, values: Collection[str]) -> Callable[[Mail], bool]:
    return lambda mail: getattr(mail, name) in values


def _left_out(
    family: str, name: str, stream: Corpus, is_of_kind: Callable[[Mail], bool], before: Corpus = ()
) -> Member | None:
    """The member whose kind is left out of ``before`` and the first part of a stream."""
    end = int(_TAUGHT_SHARE * len(stream))
    taught = [mail for mail in (*before, *stream[:end]) if not (mail.is_ham and is_of_kind(mail))]
    kind = [mail for mail in stream if mail.is_ham and is_of_kind(mail)]
    return _tested(family, name, taught, [*kind, *(mail for mail in stream[end:] if not mail.is_ham)])


def _tested(family: str, name: str, taught: Corpus, tested: Corpus) -> Member | None:
    """The member that is tested on some of these, and whose labels are others of their ham."""
    draw = random.Random(f"{family} {name}")
    ham, spam = ([mail for mail in tested if mail.is_ham is is_ham] for is_ham in (True, False))
    if len(ham) < _MIN_KIND:
        return None
    ham = draw.sample(ham, min(len(ham), max(LABELS) + _TESTED))
    labels = min(max(LABELS), len(ham) // 3)
    spam = draw.sample(spam, min(len(spam), _TESTED))
    return Member(family, name, taught, ham[:labels], ham[labels:], spam)


def measure(member: Member) -> list[Outcome]:
    """Teach and test one member, and return its outcomes in the order of ``LABELS``."""
    with ExitStack() as stack:
        folders = {
            name: stack.enter_context(tempfile.TemporaryDirectory()) for name in PEERS if is_installed(name)
        }
        others = {
            name: stack.enter_context(closing(PEERS[name](Path(folder)))) for name, folder in folders.items()
        }
        return asyncio.run(_measure(member, others))


async def _measure(member: Member, others: Mapping[str, Bogofilter | SpamAssassin]) -> list[Outcome]:
    outcomes, done = [], 0
    spam_filter = _make_filter()
    await _learn(spam_filter, member.taught)
    for other in others.values():
        other.learn(member.taught)
    for level in member.levels:
        new = member.labelled[done:level]
        await _learn(spam_filter, new)
        ours = [await _called_spam(spam_filter, mails) for mails in (member.ham, member.spam)]
        rates = {name: _rates(*(called[i] for called in ours)) for i, name in enumerate(FILTERS[:2])}
        for name, other in others.items():
            other.learn(new)
            rates[name] = _rates(*(other.called_spam(mails) for mails in (member.ham, member.spam)))
        outcomes.append(Outcome(member.family, level, rates))
        done = level
    return outcomes


def _rates(ham_called_spam: Sequence[bool], spam_called_spam: Sequence[bool]) -> Rates:
    return 100 * fmean(ham_called_spam), 100 - 100 * fmean(spam_called_spam)


@cache
def _settings() -> Settings:
    return Settings()


def _make_filter() -> Filter:
    engine = choose_engine()
    model = MemoryModel(counts=make_counts(engine.native_library))
    return make_filter(_settings(), model, model, engine=engine)


async def _learn(spam_filter: Filter, mails: Corpus) -> None:
    async def lessons() -> AsyncIterator[LabelledMessage]:
        for mail in mails:
            yield LabelledMessage(_tokenize(mail.path), mail.label)

    await spam_filter.learn_many(lessons(), FeedbackSource("benchmark"), lambda _: None)


async def _called_spam(spam_filter: Filter, mails: Corpus) -> tuple[list[bool], list[bool]]:
    """Return which are called spam, with the discount and without it."""
    messages = [_tokenize(mail.path) for mail in mails]
    checks = [await spam_filter.score_tokens(message.key, message.tokens) for message in messages]
    full = [decide_verdict(check.full_probability, check.thresholds, check.state)[0] for check in checks]
    return [check.verdict.is_spam for check in checks], [verdict.is_spam for verdict in full]


@cache
def _tokenizer() -> Tokenizer:
    return make_model_tokenizer(_settings(), choose_engine())


@cache
def _tokenize(path: str) -> TokenizedMessage:
    message = make_message_reader(_settings()).read_incoming(Path(path).read_bytes())
    return _tokenizer().tokenize(message)


class Bogofilter:
    """bogofilter with a word list in a folder, without configuration files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def learn(self, mails: Corpus) -> None:
        """Learn the messages."""
        for option, is_ham in (("-n", True), ("-s", False)):
            self._run(option, [mail.path for mail in mails if mail.is_ham is is_ham])

    def called_spam(self, mails: Corpus) -> list[bool]:
        """Return which messages it calls spam, and not ham or unsure."""
        lines = self._run("-T", [mail.path for mail in mails]).splitlines()
        return [line.split()[-2] == "S" for line in lines]

    def _run(self, option: str, paths: Sequence[str]) -> str:
        """Run it over messages; raises ``RuntimeError`` if it fails."""
        if not paths:
            return ""
        command = ["bogofilter", "-C", "-d", str(self._folder), option, "-b"]
        done = subprocess.run(command, input="\n".join(paths), capture_output=True, text=True, check=False)
        if done.returncode > 2:  # 0 to 2 say spam, ham and unsure
            raise RuntimeError(f"bogofilter {option}: {done.stderr}")
        return done.stdout

    def close(self) -> None:
        """Do nothing: no process is left."""


class SpamAssassin:
    """SpamAssassin's Bayes alone in a process of its own, with its database in a folder."""

    def __init__(self, folder: Path) -> None:
        command = ["perl", str(_SPAMASSASSIN_BAYES), str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def learn(self, mails: Corpus) -> None:
        """Learn the messages."""
        for mail in mails:
            self._ask(f"{mail.label} {mail.path}")

    def called_spam(self, mails: Corpus) -> list[bool]:
        """Return which messages get BAYES_99."""
        answers = [self._ask(f"check {mail.path}") for mail in mails]
        return [answer != "none" and float(answer) >= _BAYES_99 for answer in answers]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _ask(self, line: str) -> str:
        """Return the answer to a line; raises ``RuntimeError`` if the process ended."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"SpamAssassin ended at {line}")
        return answer


PEERS: Mapping[str, Callable[[Path], Bogofilter | SpamAssassin]] = {
    "bogofilter": Bogofilter, "SpamAssassin": SpamAssassin,
}  # fmt: skip
_PROGRAMS = {"bogofilter": "bogofilter", "SpamAssassin": "sa-learn"}


def is_installed(name: str) -> bool:
    """Return whether the filter of this name is installed."""
    return shutil.which(_PROGRAMS[name]) is not None


def rows(outcomes: Iterable[Outcome]) -> Iterator[Sequence[str]]:
    """Yield the rows of the table: families, and in each the numbers of labels."""
    outcomes = list(outcomes)
    for family, description in FAMILIES.items():
        for labels in LABELS:
            some = [each.rates for each in outcomes if (each.family, each.labels) == (family, labels)]
            if some:
                rates = [[each[name] for each in some if name in each] for name in FILTERS]
                cells = [mean_and_interval([pair[i] for pair in of_filter]) for of_filter in rates for i in (0, 1)]
                yield f"{family}: {description}", str(len(some)), str(labels), *cells


def mean_and_interval(values: Sequence[float]) -> str:
    """Return the mean, with the interval of 95 % of a bootstrap over the members, if there are several."""
    if len(values) < 2:
        return f"{values[0]:.1f}" if values else "-"
    draw, values = random.Random(0), sorted(values)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    low, high = means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
    return f"{fmean(values):.1f} ({low:.1f} to {high:.1f})"

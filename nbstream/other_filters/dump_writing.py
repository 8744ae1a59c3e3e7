"""Writes what was learned here as a dump that another filter loads.

Rules: pure. What is written are numbers of messages: in how many messages of each class, of those that the ledger
has, a token stands. A message has the tokens that the other filter would make of it, as far as ours say so: words,
senders and recipients, hosts. What it makes of anything else is left out. Our words have no case, and bogofilter's
have: each is written in lower case, with a capital, and in capitals, with the same numbers.

The tokens are those of the lexer of bogofilter 1.2.5, and of the plugin Bayes of SpamAssassin 4.0. For what such a
dump is worth see docs/experiments.md, "What was learned here, in another filter".
"""

from __future__ import annotations

import hashlib
import re
import time
from typing import TYPE_CHECKING, Protocol

from nbstream.bayes.counts import CLASSES
from nbstream.bayes.multinomial import HAM, SPAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_SEEN = len(CLASSES)  # the place of the time behind the counts of the classes

# What is a word in both lexers: three to thirty characters, not only digits.
_BOGOFILTER_WORD = re.compile(r"(?=.*[^\W\d]|\$)[\w$][\w.'-]{1,28}[\w!$]")
_BOGOFILTER_WORDS = {
    "body": "",
    "subject": "subj:",
    "from.name": "from:",
    "to.name": "to:",
    "cc.name": "to:",
    "x-mailer": "head:",
    "user-agent": "head:",
}
_BOGOFILTER_ADDRESSES = {"from": "from:", "to": "to:", "cc": "to:", "return-path": "rtrn:", "reply-to": "head:"}
_BOGOFILTER_HOSTS = {"url": "", "received": "rcvd:"}
_NOT_IN_HEAD = frozenset({"subject", "from", "to", "cc", "return-path", "received"})  # their prefix is the name

_SPAMASSASSIN_ADDRESSES = {
    "from": ("H*F:", "H*Ad:"),
    "to": ("HTo:", "H*Ad:"),
    "cc": ("HCc:", "H*Ad:"),
    "reply-to": ("H*R:",),
}
_SHORTEST, _LONGEST, _BEGINNING = 3, 15, 7  # characters of a word of SpamAssassin; what is left of a longer one
_MARKS = re.compile(r"[^\w:*]", re.ASCII)


class Dump(Protocol):
    """What another filter loads."""

    @property
    def messages(self) -> Sequence[int]:
        """How many messages of each class were counted."""

    def add(self, label: str, learned_at: float, tokens: Iterable[bytes]) -> None:
        """Count a message of the class ``label``, learned at ``learned_at`` (seconds since the epoch)."""

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file."""


class _MessageCounts:
    """How many messages of each class have a token, and when the last of them was learned."""

    def __init__(self) -> None:
        self.messages = [0] * len(CLASSES)
        self._rows: dict[bytes, list[int]] = {}

    def _count(self, label: str, learned_at: float, tokens: Iterable[bytes]) -> None:
        column, seen = CLASSES.index(label), int(learned_at)
        self.messages[column] += 1
        for token in tokens:
            row = self._rows.setdefault(token, [0] * len(CLASSES) + [seen])
            row[column] += 1
            row[_SEEN] = max(row[_SEEN], seen)


class BogofilterDump(_MessageCounts):
    """What ``bogoutil -l`` loads."""

    def add(self, label: str, learned_at: float, tokens: Iterable[bytes]) -> None:
        """Count a message of the class ``label``, learned at ``learned_at`` (seconds since the epoch)."""
        self._count(label, learned_at, set(_bogofilter_tokens(tokens)))

    def lines(self) -> Iterator[bytes]:
        """Yield the lines: a token, its messages of spam and of ham, and a date."""
        yield b".WORDLIST_VERSION 20040500 0 0\n"
        yield b".ENCODING 2 0 0\n"  # UTF-8
        yield b".MSG_COUNT %d %d 0\n" % (self.messages[SPAM], self.messages[HAM])
        for token, row in self._rows.items():
            day = time.strftime("%Y%m%d", time.gmtime(row[_SEEN])).encode()
            yield b"%b %d %d %b\n" % (token, row[SPAM], row[HAM], day)


class SpamassassinBackup(_MessageCounts):
    """What ``sa-learn --restore`` loads."""

    def add(self, label: str, learned_at: float, tokens: Iterable[bytes]) -> None:
        """Count a message of the class ``label``, learned at ``learned_at`` (seconds since the epoch)."""
        self._count(label, learned_at, {_hash(token) for token in set(_spamassassin_tokens(tokens))})

    def lines(self) -> Iterator[bytes]:
        """Yield the lines: the messages of spam and of ham that have a token, when it was seen, and its hash."""
        yield b"v\t3\tdb_version # this must be the first line!!!\n"
        yield b"v\t%d\tnum_spam\n" % self.messages[SPAM]
        yield b"v\t%d\tnum_nonspam\n" % self.messages[HAM]
        for token, row in self._rows.items():
            yield b"t\t%d\t%d\t%d\t%b\n" % (row[SPAM], row[HAM], row[_SEEN], token.hex().encode())


DUMPS: Mapping[str, Callable[[], Dump]] = {"bogofilter": BogofilterDump, "spamassassin": SpamassassinBackup}
"""What can be written, by the name of the filter that it is for."""


def _split(tokens: Iterable[bytes]) -> list[tuple[str, str]]:
    """Return the prefix of each token, and what it stands before."""
    parts = (token.decode(errors="replace").partition(":") for token in tokens)
    return [(prefix, word) for prefix, _, word in parts]


def _bogofilter_tokens(tokens: Iterable[bytes]) -> Iterator[bytes]:
    split = _split(tokens)
    for prefix, word in split:
        if prefix in _BOGOFILTER_WORDS:
            for part in word.split("@"):
                for form in (part, part[:1].upper() + part[1:], part.upper()):
                    yield from _bogofilter_word(_BOGOFILTER_WORDS[prefix], form)
        elif prefix in _BOGOFILTER_ADDRESSES and "@" in word:
            for part in word.split("@"):
                yield from _bogofilter_word(_BOGOFILTER_ADDRESSES[prefix], part)
        elif prefix == "field" and word.lower() not in _NOT_IN_HEAD:
            yield from _bogofilter_word("head:", word)
    yield from _bogofilter_hosts(split)


def _bogofilter_hosts(split: Sequence[tuple[str, str]]) -> Iterator[bytes]:
    for kind, prefix in _BOGOFILTER_HOSTS.items():
        hosts = [word for name, word in split if name == kind and "." in word]
        parents = {host.partition(".")[2] for host in hosts}  # for which there are tokens of ours too
        for host in hosts:
            if host not in parents:
                yield from _bogofilter_word(prefix, host)


def _bogofilter_word(prefix: str, word: str) -> Iterator[bytes]:
    if _BOGOFILTER_WORD.fullmatch(word):
        yield f"{prefix}{word}".encode()


def _spamassassin_tokens(tokens: Iterable[bytes]) -> Iterator[str]:
    for prefix, word in _split(tokens):
        if prefix in {"body", "subject"}:  # the subject is the first line of what it reads as the body
            yield from _spamassassin_word(word)
        elif prefix == "url" and "." in word:
            yield f"UD:{word}"
        else:
            local, at, domain = word.rpartition("@")
            for field in _SPAMASSASSIN_ADDRESSES.get(prefix, ()):
                if at:
                    yield f"{field}U*{local}"
                if "." in domain:
                    yield f"{field}D*{domain}"


def _spamassassin_word(word: str) -> Iterator[str]:
    if len(word.encode()) < _SHORTEST or word.startswith("~"):  # a summary of a long word
        return
    local, at, domain = word.rpartition("@")
    if at:
        yield from (f"U*{local}", f"D*{domain}")
    whole = word if len(word) <= _LONGEST else f"sk:{word[:_BEGINNING]}"
    yield whole
    if word.isascii() and (bare := _MARKS.sub("", whole)):
        yield bare


def _hash(token: str) -> bytes:
    return hashlib.sha1(token.encode(), usedforsecurity=False).digest()[-5:]

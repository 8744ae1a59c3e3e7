"""Mail of a stranger who knows the public part of a stream: mail that is to be learned, and what follows it.

Rules: nothing random; the same stream and the same number give the same mail. All domains of the stranger are
reserved ones (RFC 2606).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbstream.mail.message import Message
from nbstream.policy.header import MessageReader
from nbstream.tokens import html
from nbstream.tokens.tokenizer import text_kind
from nbstream.tokens.words import distinct_words_utf8

NEW_WORDS = ("zorvexa", "plimquat", "vandrelo", "quibexin", "mordavel")
"""Words that nobody has ever written."""

_OWN_FIELDS = ("message-id", "received", "date", "content-type", "content-transfer-encoding", "mime-version")
"""The fields that a mail has of its own, whoever it copies the others from."""

_MAX_COPIED_WORDS = 2000


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail of the stream: its label, its bytes with CRLF, its header fields and its visible text."""

    label: str
    raw: bytes
    fields: tuple[tuple[str, str], ...]
    text: str

    @property
    def sender(self) -> str:
        """The From field."""
        return next((text for name, text in self.fields if name.lower() == "from"), "")

    @property
    def subject(self) -> str:
        """The Subject field."""
        return next((text for name, text in self.fields if name.lower() == "subject"), "")

    @property
    def words(self) -> list[str]:
        """The distinct words of the text."""
        return [word.decode() for word in distinct_words_utf8(self.text.lower(), _MAX_COPIED_WORDS)]


def read_letter(label: str, content: bytes) -> Letter:
    """The letter in these bytes."""
    message = MessageReader().read_incoming(content)
    fields = tuple((field.name, field.text) for field in message.fields)
    return Letter(label, message.raw, fields, _visible_text(message))


def _visible_text(message: Message) -> str:
    kinds = ((part, text_kind(part)) for part in message.parts)
    return "\n".join(html.visible_text(part.text) if kind == "html" else part.text for part, kind in kinds if kind)


@dataclass(frozen=True, slots=True)
class Stranger:
    """How a stranger writes.

    ``words`` are the words of the campaign. ``header`` says whose header fields the mail has: those of the
    ``stranger``, those of the ``copied`` mail, or those of a ``known`` correspondent. With ``domains`` above 1 the
    sender's domain and the link change from mail to mail. With ``whole_campaign`` the mail that is to be learned
    contains the whole text of the campaign, and not only its words and its link.
    """

    words: Sequence[str] = NEW_WORDS
    header: str = "stranger"
    domains: int = 1
    whole_campaign: bool = False

    def campaign(self, spam: Letter, known: Letter) -> bytes:
        """The campaign mail: spam, with the words and the link of the campaign."""
        return self._mail(spam, known, 0, f"{spam.text}\n{self._campaign_text(0)}", "campaign")

    def lesson(self, letter: Letter, known: Letter, number: int, campaign: Letter) -> bytes:
        """A mail that is to be learned in the class of ``letter``: its text, the words and the link."""
        added = f"{campaign.text}\n" if self.whole_campaign else ""
        return self._mail(letter, known, number, f"{letter.text}\n{added}{self._campaign_text(number)}", "lesson")

    def _campaign_text(self, number: int) -> str:
        return f"{' '.join(self.words)}\nhttp://www.{self._domain(number)}/order/now\n"

    def _domain(self, number: int) -> str:
        return f"campaign{number % self.domains}.example"

    def _mail(self, letter: Letter, known: Letter, number: int, text: str, kind: str) -> bytes:
        domain = self._domain(number)
        match self.header:
            case "copied":
                fields = copied_fields(letter.fields)
            case "known":
                fields = copied_fields(known.fields)
            case _:
                fields = [("From", f"Zora Plim <zora@{domain}>"), ("To", "you@victim.example")]
                fields += [
                    ("Subject", " ".join((*self.words[:1], letter.subject))),
                    ("X-Mailer", "Zorvexa Mailer 7.1"),
                ]
        return mail([*_trace(domain, number, kind), *fields], text)


def _trace(domain: str, number: int, kind: str) -> list[tuple[str, str]]:
    return [
        ("Received", f"from mail.{domain} (mail.{domain} [192.0.2.9]) by mx.victim.example with ESMTP"),
        ("Message-ID", f"<{kind}.{number}@{domain}>"),
        ("Date", "Sat, 21 Nov 2026 10:00:00 +0000"),
    ]


def copied_fields(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The fields that a copy of a mail has, without those that each mail has of its own."""
    return [(name, text) for name, text in fields if name.lower() not in _OWN_FIELDS]


def mail(fields: Sequence[tuple[str, str]], text: str) -> bytes:
    """A mail of one plain part."""
    fields = [*fields, ("MIME-Version", "1.0"), ("Content-Type", "text/plain; charset=utf-8")]
    head = "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in fields)
    body = "\r\n".join(text.splitlines())
    return f"{head}\r\n{body}\r\n".encode("utf-8", "replace")


def again(letter: Letter, number: int) -> bytes:
    """The same mail once more, as another mail: the next number of its list or of its campaign."""
    head, separator, body = letter.raw.partition(b"\r\n\r\n")
    lines = head.replace(b"\r\nmessage-id:", b"\r\nMessage-ID:").replace(b"\r\nMessage-Id:", b"\r\nMessage-ID:")
    before, found, after = (b"\r\n" + lines).partition(b"\r\nMessage-ID:")
    rest = after.partition(b"\r\n")[2]
    own = b"\r\nMessage-ID: <again.%d@x.example>\r\n" % number
    return (before + own + rest if found else b"\r\n" + lines + own.rstrip()).lstrip() + separator + body


def frequent_sender(letters: Iterable[Letter]) -> Letter:
    """A ham of the sender who wrote the most ham: the known correspondent."""
    ham = [letter for letter in letters if letter.label == "ham" and letter.sender]
    ((sender, _),) = Counter(letter.sender for letter in ham).most_common(1)
    return next(letter for letter in ham if letter.sender == sender)


def words_of_spam(letters: Iterable[Letter], count: int) -> list[str]:
    """The ``count`` words that the most spam and no ham contains."""
    frequency = _frequency(letters)
    spam_only = {word: spam for word, (ham, spam) in frequency.items() if not ham and len(word) > 3}
    return sorted(spam_only, key=lambda word: (-spam_only[word], word))[:count]


def words_of_both(letters: Iterable[Letter], count: int) -> list[str]:
    """The ``count`` words that the most mail of both classes contains, as much ham as spam."""
    both = {word: min(pair) for word, pair in _frequency(letters).items() if max(pair) < 2 * min(pair)}
    return sorted(both, key=lambda word: (-both[word], word))[:count]


def _frequency(letters: Iterable[Letter]) -> dict[str, tuple[int, int]]:
    counts: dict[str, list[int]] = {}
    for letter in letters:
        for word in letter.words:
            counts.setdefault(word, [0, 0])[letter.label == "spam"] += 1
    return {word: (ham, spam) for word, (ham, spam) in counts.items()}

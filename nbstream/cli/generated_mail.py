"""Mail to measure with, where no real mail is at hand: the same bytes for the same seed.

Rules: no part of it comes from real mail. Its sizes and numbers of tokens are near those of TREC 2007,
where 1,500 messages had 1.4, 3.7, 26 and 58 kB at 5, 50, 95 and 99 %, and 233, 385, 688 and 1,085 tokens. Words
are drawn by Zipf's law, and a part of them by the label, so that a model has clues to find.
"""

from __future__ import annotations

import base64
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

_WORDS = 30_000
_TOPIC_WORDS = 1_500  # of each label
_TOPIC_SHARE = 0.25
_SYLLABLES = [
    c + v
    for c in ("b", "ch", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "st", "t", "v", "w")
    for v in "aeiou"
]
_HOSTS = 400

_HTML_SHARE = 0.30
_BOTH_SHARE = 0.35  # of text and the same as HTML
_ATTACHMENT_SHARE = 0.05
# The length of the text in words, at these shares of all messages.
_TEXT_SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
_TEXT_WORDS = (5.0, 25.0, 90.0, 170.0, 300.0, 600.0, 850.0, 1_800.0, 5_000.0)
_ATTACHMENT_BYTES = (4_000, 45_000)
_LINE_WORDS = 11


@dataclass(frozen=True, slots=True)
class GeneratedMail:
    """A message as it comes in, with CRLF line ends, and the label that its words were drawn for."""

    label: str
    raw: bytes


def generate_mail(count: int, seed: int) -> Iterator[GeneratedMail]:
    """Yield ``count`` messages, half of them spam; the same ones for the same ``seed``."""
    generator = random.Random(seed)  # noqa: S311 - no secret
    words = _Words(generator)
    for number in range(count):
        label = ("ham", "spam")[number % 2]
        yield GeneratedMail(label, _write_message(generator, words, label, f"{seed}.{number}"))


class _Words:
    """A vocabulary whose words are drawn by Zipf's law, some of them from the topic of a label."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._words = ["".join(generator.choices(_SYLLABLES, k=generator.randint(1, 4))) for _ in range(_WORDS)]
        self._weights = _zipf_weights(_WORDS)
        self._topic_weights = _zipf_weights(_TOPIC_WORDS)
        topics = generator.sample(self._words, 2 * _TOPIC_WORDS)
        self._topics = {"ham": topics[:_TOPIC_WORDS], "spam": topics[_TOPIC_WORDS:]}

    def draw(self, label: str, count: int) -> list[str]:
        of_topic = sum(self._generator.random() < _TOPIC_SHARE for _ in range(count))
        words = self._generator.choices(self._words, cum_weights=self._weights, k=count - of_topic)
        words += self._generator.choices(self._topics[label], cum_weights=self._topic_weights, k=of_topic)
        self._generator.shuffle(words)
        return words


def _zipf_weights(count: int) -> list[float]:
    return list(itertools.accumulate(1 / rank for rank in range(1, count + 1)))


def _write_message(generator: random.Random, words: _Words, label: str, number: str) -> bytes:
    text = words.draw(label, _text_length(generator))
    lines = _wrap(text)
    draw, boundary = generator.random(), f"part-{number}"
    plain = ("text/plain; charset=utf-8", "\r\n".join(lines))
    html = ("text/html; charset=utf-8", _write_html(generator, lines))
    parts = [html] if draw < _HTML_SHARE else [plain, html] if draw < _HTML_SHARE + _BOTH_SHARE else [plain]
    attachment = generator.random() < _ATTACHMENT_SHARE
    header = _write_header(generator, words, label, number)
    if len(parts) == 1 and not attachment:
        content_type, body = parts[0]
        return f"{header}Content-Type: {content_type}\r\n\r\n{body}\r\n".encode()
    kind = "mixed" if attachment else "alternative"
    sections = [f"Content-Type: {content_type}\r\n\r\n{body}\r\n" for content_type, body in parts]
    if attachment:
        sections.append(_write_attachment(generator, number))
    joined = "".join(f"--{boundary}\r\n{section}" for section in sections)
    return (
        f'{header}Content-Type: multipart/{kind}; boundary="{boundary}"\r\n\r\n{joined}--{boundary}--\r\n'
    ).encode()


def _text_length(generator: random.Random) -> int:
    """Return a length in words, by linear interpolation between the quantiles."""
    share = generator.random()
    upper = next(i for i, known in enumerate(_TEXT_SHARES) if known > share)
    low, high = _TEXT_SHARES[upper - 1], _TEXT_SHARES[upper]
    part = (share - low) / (high - low)
    return round(_TEXT_WORDS[upper - 1] + part * (_TEXT_WORDS[upper] - _TEXT_WORDS[upper - 1]))


def _wrap(words: list[str]) -> list[str]:
    return [" ".join(words[i : i + _LINE_WORDS]) for i in range(0, len(words), _LINE_WORDS)]


def _write_html(generator: random.Random, lines: list[str]) -> str:
    paragraphs = "".join(
        f'<p style="margin:{generator.randint(0, 9)}px;font-family:Arial,sans-serif">{line}'
        f"{_write_link(generator) if generator.random() < 0.25 else ''}</p>\r\n"
        for line in lines
    )
    return (
        f'<html><head><title>{lines[0][:40]}</title></head><body bgcolor="#ffffff">\r\n{paragraphs}</body></html>'
    )


def _write_link(generator: random.Random) -> str:
    host, page = generator.randrange(_HOSTS), generator.randrange(10_000)
    return f' <a href="https://www.host{host}.example.com/page/{page}.html">more</a>'


def _write_attachment(generator: random.Random, number: str) -> str:
    content = base64.encodebytes(generator.randbytes(generator.randint(*_ATTACHMENT_BYTES)))
    return (
        f'Content-Type: application/pdf; name="paper-{number}.pdf"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
        + content.decode().replace("\n", "\r\n")
    )


def _write_header(generator: random.Random, words: _Words, label: str, number: str) -> str:
    host, relay = (f"mail{generator.randrange(_HOSTS)}.example.{top}" for top in ("com", "net"))
    sender, day = words.draw(label, 1)[0], generator.randint(1, 28)
    hour, minute, second = (generator.randrange(limit) for limit in (24, 60, 60))
    date = f"{day} Nov 2026 {hour:02}:{minute:02}:{second:02} +0000"
    queue_ids = [f"{generator.randrange(1 << 40):010X}" for _ in range(2)]
    body_hash, signature = (base64.b64encode(generator.randbytes(size)).decode() for size in (32, 48))
    subject = " ".join(words.draw(label, generator.randint(2, 9)))
    address = f"10.{generator.randrange(256)}.{generator.randrange(256)}.{generator.randrange(1, 255)}"
    fields = [
        f"Return-Path: <{sender}@{host}>",
        f"Received: from {relay} ({relay} [{address}])\r\n\tby mx.example.org (Postfix) with ESMTPS id "
        f"{queue_ids[0]}\r\n\tfor <you@example.org>; {date}",
        f"Received: from {host} (localhost [127.0.0.1])\r\n\tby {relay} with ESMTP id {queue_ids[1]}; {date}",
        f"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d={host}; s=mail;\r\n\th=from:to:subject:date;"
        f" bh={body_hash};\r\n\tb={signature}",
        f"Message-ID: <{number}.{generator.randrange(1 << 40):x}@{host}>",
        f"Date: {date}",
        f'From: "{sender.title()} {words.draw(label, 1)[0].title()}" <{sender}@{host}>',
        "To: <you@example.org>",
        f"Subject: {subject}",
        "MIME-Version: 1.0",
    ]
    if generator.random() < 0.5:
        fields.append(f"X-Mailer: Mailer {generator.randint(1, 20)}.{generator.randint(0, 9)}")
    if generator.random() < 0.3:
        fields.append(f"List-Id: <{words.draw(label, 1)[0]}.{host}>")
    return "".join(f"{field}\r\n" for field in fields)

"""Mail as mail programs write it, to train a dictionary on: made up, and the same bytes for the same seed.

Rules: no part of it comes from anybody's messages. What real mail has in common is in it: the fields that mail
programs, list managers and servers write and their order, the markup of HTML mail, and the frequent words of the
language. What is peculiar to one message is drawn at random, since a dictionary can do nothing for it.
"""

from __future__ import annotations

import base64
import itertools
import quopri
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).parent / "data"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ZONES = (
    "+0000",
    "+0000 (UTC)",
    "-0400",
    "-0400 (EDT)",
    "-0500 (EST)",
    "-0700",
    "-0700 (PDT)",
    "-0800",
    "+0100",
    "+0200",
)
_TOP_DOMAINS = ("com", "com", "net", "org", "de", "info", "ru", "cn", "co.uk")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_OUTLOOK_EXPRESS = (
    "6.00.2600.0000",
    "6.00.2800.1106",
    "6.00.2900.2180",
    "6.00.2900.2869",
    "6.00.2900.3028",
    "5.50.4522.1200",
)
_IN_PARTS = 0.4  # the share of mail with a text and the same as HTML
_HTML_ALONE = 0.25
_LINE_WORDS = 12


@dataclass(frozen=True, slots=True)
class _Program:
    """A mail program, and how frequent it is (``weight``).

    ``fields`` are the header fields in its order, with places for what differs; ``boundary`` is how it separates
    parts. ``charsets`` and ``encodings`` (of transfer) are those that it uses for texts; without any it writes no
    MIME.
    """

    weight: int
    boundary: str
    charsets: tuple[str, ...]
    encodings: tuple[str, ...]
    fields: str


def _read_programs() -> tuple[_Program, ...]:
    programs = []
    for section in _read_sections("mail_programs.txt"):
        described, _, fields = section.partition("\n\n")
        weight, boundary, charsets, encodings = (line.partition(": ")[2] for line in described.split("\n"))
        programs.append(
            _Program(int(weight), boundary, _choices(charsets), _choices(encodings), f"{fields.strip()}\n")
        )
    return tuple(programs)


def _choices(line: str) -> tuple[str, ...]:
    return tuple(line.split(" | ")) if line else ()


def _read_sections(name: str) -> list[str]:
    return (_DATA / name).read_text("utf-8").strip("\n").split("\n%\n")


def _read_words(name: str) -> list[str]:
    return (_DATA / f"{name}.txt").read_text("utf-8").split()


_PROGRAMS = _read_programs()
_RECEIVED_FIELDS = _read_sections("received_fields.txt")
_HTML_STARTS, _HTML_LINES = _read_sections("html_starts.txt"), _read_sections("html_lines.txt")
_ENGLISH, _WORK, _LISTS, _SPAM = (_read_words(f"words_{name}") for name in ("english", "work", "lists", "spam"))
_OTHER_LANGUAGES = {charset: _read_words(f"words_{charset}") for charset in ("iso-8859-1", "utf-8")}
_NAMES, _DOMAINS = _read_words("names"), _read_words("domains")


def typical_mail(count: int, seed: int) -> Iterator[bytes]:
    """Yield ``count`` messages with CRLF line ends; the same ones for the same ``seed``."""
    generator = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(count):
        yield _Writer(generator).message().replace("\n", "\r\n").encode("utf-8", "replace")


class _Writer:
    """Writes one message."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._program = generator.choices(_PROGRAMS, [program.weight for program in _PROGRAMS])[0]
        draw = generator.random()
        self._topic = _WORK if draw < 0.4 else _LISTS if draw < 0.65 else _SPAM
        self._foreign = generator.choices((None, *_OTHER_LANGUAGES), (90, 5, 5))[0]
        self._sender, self._recipient = self._address(), self._address()

    def message(self) -> str:
        """Return the message."""
        generator, program = self._generator, self._program
        text = self._text(round(generator.lognormvariate(4.6, 0.8)) + 5)
        received = "".join(
            f"Received: {self._filled(server)}\n"
            for server in generator.choices(_RECEIVED_FIELDS, k=generator.randint(1, 5))
        )
        head = f"Return-Path: <{self._sender}>\n{received}"
        if generator.random() < 0.2:
            head += self._filled(
                "Authentication-Results: {mx}; dkim=pass header.d={host};\n"
                "\tspf=pass smtp.mailfrom={sender}; dmarc=pass\n"
            )
        if not program.charsets:
            return f"{head}{self._filled(program.fields)}\n{text}\n"
        draw = generator.random()
        if draw < _IN_PARTS:
            boundary, kind = self._filled(program.boundary), "alternative"
            sections = [self._part("text/plain", text), self._part("text/html", self._html(text))]
            if generator.random() < 0.15:
                kind, sections = "mixed", [*sections, self._attachment()]
            joined = "".join(f"--{boundary}\n{section}\n" for section in sections)
            body = f"This is a multi-part message in MIME format.\n\n{joined}--{boundary}--\n"
            fields = self._fields(f'multipart/{kind};\n\tboundary="{boundary}"')
            return f"{head}{fields}\n{body}"
        is_html = draw < _IN_PARTS + _HTML_ALONE
        part = self._part("text/html" if is_html else "text/plain", self._html(text) if is_html else text)
        described, _, body = part.partition("\n\n")
        return f"{head}{self._fields(described.removeprefix('Content-Type: '))}\n{body}"

    def _fields(self, content_type: str) -> str:
        return self._filled(self._program.fields, {"type": lambda: f"{content_type}\n"})

    def _filled(self, template: str, also: dict[str, Callable[[], str]] | None = None) -> str:
        """Return the template with something else in each of its places."""
        places = _Places(self._places() | (also or {}))
        return template.format_map(places)

    def _places(self) -> dict[str, Callable[[], str]]:
        generator = self._generator
        return {
            "host": self._host,
            "helo": self._host,
            "mx": lambda: generator.choice(("mx.example.org", "mail.example.org", "mx1.example.net", "localhost")),
            "ip": lambda: ".".join(str(generator.randint(1, 254)) for _ in range(4)),
            "rcpt": lambda: self._recipient,
            "sender": lambda: self._sender,
            "to": lambda: generator.choice(("{}", "<{}>", '"{0}" <{0}>')).format(self._recipient),
            "plain_to": lambda: self._recipient,
            "plain_from": lambda: self._sender,
            "named_to": lambda: f'"{self._full_name()}" <{self._recipient}>',
            "named": lambda: f'"{self._full_name()}" <{self._sender}>',
            "plain_named": lambda: f"{self._full_name()} <{self._sender}>",
            "list": lambda: f"{self._word()}@lists.example.org",
            "subject": self._subject,
            "date": self._date,
            "word": self._word,
            "number": lambda: str(generator.randrange(1 << generator.randint(6, 31))),
            "oe": lambda: generator.choice(_OUTLOOK_EXPRESS),
            "hex4": lambda: f"{generator.randrange(1 << 16):04X}",
            "hex5": lambda: f"{generator.randrange(1 << 20):05X}",
            "hex8": lambda: f"{generator.randrange(1 << 32):08x}",
            "hex12": lambda: f"{generator.randrange(1 << 48):012x}",
            "hex32": lambda: f"{generator.randrange(1 << 128):032x}",
            "upper": lambda: base64.b32encode(generator.randbytes(25)).decode(),
            "upper10": lambda: f"{generator.randrange(1 << 40):010X}",
            "digits24": lambda: f"{generator.randrange(10**24):024}",
            "base22": lambda: base64.urlsafe_b64encode(generator.randbytes(16)).decode()[:22],
            "base44": lambda: base64.b64encode(generator.randbytes(32)).decode(),
            "uuid": lambda: "-".join(f"{generator.randrange(16**n):0{n}X}" for n in (8, 4, 4, 4, 12)),
        }

    def _part(self, content_type: str, text: str) -> str:
        charset = self._foreign or self._generator.choice(self._program.charsets)
        encoding = self._generator.choice(self._program.encodings)
        content = text.encode("utf-8")
        if encoding == "quoted-printable":
            text = quopri.encodestring(content).decode()
        elif encoding == "base64":
            text = base64.encodebytes(content).decode()
        return f"Content-Type: {content_type}; charset={charset}\nContent-Transfer-Encoding: {encoding}\n\n{text}"

    def _attachment(self) -> str:
        generator = self._generator
        kind, end = generator.choice(
            (
                ("application/pdf", "pdf"),
                ("image/jpeg", "jpg"),
                ("image/gif", "gif"),
                ("application/msword", "doc"),
            )
        )
        content = base64.encodebytes(generator.randbytes(generator.randint(300, 3000))).decode()
        name = f"{self._word()}.{end}"
        return (
            f'Content-Type: {kind};\n\tname="{name}"\nContent-Transfer-Encoding: base64\n'
            f'Content-Disposition: attachment;\n\tfilename="{name}"\n\n{content}'
        )

    def _text(self, words: int) -> str:
        drawn = [self._word() for _ in range(words)]
        lines = [" ".join(drawn[i : i + _LINE_WORDS]) for i in range(0, words, _LINE_WORDS)]
        marked = [line.capitalize() + self._generator.choice((".", "", ",", "!", "?")) for line in lines]
        if self._generator.random() < 0.5:
            marked.append(
                f"{self._generator.choice(('http://', 'https://', 'http://www.'))}{self._host()}{self._path()}"
            )
        if self._generator.random() < 0.3:
            marked.append(f"\n-- \n{self._full_name()}\n{self._sender}\n{self._word()} mailing list")
        return "\n".join(marked)

    def _html(self, text: str) -> str:
        generator = self._generator
        paragraphs = [generator.choice(_HTML_LINES).format(line) for line in text.split("\n")]
        links = [
            f'<a href="{generator.choice(("http://www.", "https://", "http://"))}{self._host()}{self._path()}">{self._word()}</a>'
            f'<img src="http://{self._host()}/images/{self._word()}.gif" width="1" height="1" border="0" alt="">'
            for _ in range(generator.randint(0, 4))
        ]
        head = generator.choice(_HTML_STARTS)
        return head + "\n".join([*paragraphs, *links]) + "</body></html>"

    def _word(self) -> str:
        generator = self._generator
        draw = generator.random()
        if self._foreign and draw < 0.8:
            return _zipf_choice(generator, _OTHER_LANGUAGES[self._foreign])
        if draw < 0.55:
            return _zipf_choice(generator, _ENGLISH)
        if draw < 0.75:
            return _zipf_choice(generator, self._topic)
        return "".join(generator.choices(_LETTERS, k=generator.randint(3, 9)))

    def _subject(self) -> str:
        words = " ".join(self._word() for _ in range(self._generator.randint(1, 8)))
        return self._generator.choice(("Re: {}", "{}", "Fwd: {}", "{}!", "{}")).format(words.capitalize())

    def _full_name(self) -> str:
        return " ".join(self._generator.choice(_NAMES).capitalize() for _ in range(2))

    def _address(self) -> str:
        name = self._generator.choice(_NAMES)
        return f"{name}{self._generator.choice(('', '', str(self._generator.randint(1, 99))))}@{self._host()}"

    def _host(self) -> str:
        generator = self._generator
        if generator.random() < 0.5:
            return generator.choice(_DOMAINS)
        word = "".join(generator.choices(_LETTERS, k=generator.randint(4, 9)))
        prefix = generator.choice(("", "mail.", "smtp.", "www.", "mx1."))
        return f"{prefix}{word}.{generator.choice(_TOP_DOMAINS)}"

    def _path(self) -> str:
        generator = self._generator
        return generator.choice(
            ("", "/", "/index.html", "/unsubscribe.php?id={}", "/click?u={}", "/images/{}.gif", "/{}/{}.html")
        ).format(self._word(), self._word())

    def _date(self) -> str:
        generator = self._generator
        clock = ":".join(f"{generator.randrange(n):02}" for n in (24, 60, 60))
        year = generator.choice((2005, 2007, 2012, 2019, 2022, 2024, 2025, 2026))
        return (
            f"{generator.choice(_DAYS)}, {generator.randint(1, 28)} {generator.choice(_MONTHS)} {year} {clock} "
            f"{generator.choice(_ZONES)}"
        )


class _Places(dict[str, Callable[[], str]]):
    """What stands in the places of a template: each is drawn anew."""

    def __getitem__(self, place: str) -> str:  # type: ignore[override]  # it draws instead of giving the drawer
        return super().__getitem__(place)()


_WEIGHTS = list(itertools.accumulate(1 / (rank + 3) for rank in range(1000)))


def _zipf_choice(generator: random.Random, words: Sequence[str]) -> str:
    return generator.choices(words, cum_weights=_WEIGHTS[: len(words)])[0]

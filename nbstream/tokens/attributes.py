"""The attributes of a message, each with one value of a closed list, for the categorical event model.

Rules: every attribute takes exactly one of its values. The last value, "other", stands for everything that is not
listed; "none" says that what the attribute describes is missing. Nothing here raises, whatever the bytes. Only the
header fields in ``_READ_FIELDS`` are read; no filter and no mailbox writes any of them. At most ``MAX_FIELDS``
fields, ``MAX_PARTS`` parts and ``SAMPLE_BYTES`` of text are read.

The lists name the mail programs, charsets and scripts that exist, not those that occur in some corpus: what a
value says about a class is learned by the counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbstream.mail.charsets import decode_text
from nbstream.mail.encoded_words import decode_encoded_words
from nbstream.tokens.header_tokens import MAX_FIELDS, MAX_VALUE_BYTES
from nbstream.tokens.html import is_html
from nbstream.tokens.scripts import SCRIPTS, detect_script
from nbstream.tokens.unicode import only_known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.mail.message import Message
    from nbstream.mail.mime import MimePart

SAMPLE_BYTES = 16 * 1024
MAX_PARTS = 20

_READ_FIELDS = frozenset(
    {
        "content-type",
        "date",
        "importance",
        "in-reply-to",
        "list-id",
        "list-post",
        "list-unsubscribe",
        "mailing-list",
    }
    | {"precedence", "received", "references", "subject", "to", "user-agent", "x-mailer", "x-priority"}
)


def _family_by_name(families: Mapping[str, str]) -> dict[str, str]:
    """Return {name: family} for the comma-separated names of each family."""
    return {name.strip(): family for family, names in families.items() for name in names.split(",")}


_CHARSETS = _family_by_name(
    {
        "ascii": "us-ascii, ascii",
        "unicode": "utf-8, utf8, utf-7, utf-16, utf-16le, utf-16be",
        "western": "iso-8859-1, iso-8859-15, windows-1252, cp1252, latin1, macintosh",
        "central": "iso-8859-2, iso-8859-4, iso-8859-13, iso-8859-16, windows-1250, windows-1257",
        "cyrillic": "koi8-r, koi8-u, windows-1251, cp1251, iso-8859-5, cp866",
        "greek": "iso-8859-7, windows-1253",
        "turkish": "iso-8859-9, windows-1254",
        "hebrew": "iso-8859-8, iso-8859-8-i, windows-1255",
        "arabic": "iso-8859-6, windows-1256",
        "thai": "tis-620, iso-8859-11, windows-874",
        "chinese": "gb2312, gbk, gb18030, x-gbk, hz-gb-2312, big5, big5-hkscs",
        "japanese": "iso-2022-jp, shift_jis, x-sjis, euc-jp, cp932",
        "korean": "euc-kr, ks_c_5601-1987, iso-2022-kr, cp949",
    }
)

# Parts of names in User-Agent or X-Mailer. The first one that occurs decides, so the narrower ones come first.
_PROGRAMS = _family_by_name(
    {
        "outlook express": "outlook express, windows mail, live mail",
        "outlook": "outlook, internet mail service, exchange",
        "apple": "apple mail, iphone, ipad",
        "webmail": "webmail, squirrelmail, roundcube, horde, internet messaging program, yahoo, hotmail, aol, "
        "gmail, zimbra, open-xchange, zoho",
        "bulk mailer": "newsletter, campaign, listmanager, listserv, mailchimp, bulk",
        "the bat": "the bat",
        "desktop": "eudora, foxmail, pegasus, lotus, incredimail, becky, emclient",
        "free desktop": "evolution, kmail, kontact, sylpheed, claws, balsa, geary",
        "mozilla": "thunderbird, mozilla, seamonkey, icedove",
        "terminal": "mutt, pine, gnus, emacs, exmh, nmh, mh-e, elm, mailx",
        "library": "php, perl, mime-tools, mime::, python, java, ruby, cdo for, swiftmailer, symfony, nodemailer, "
        "mailkit",
    }
)

# File name endings and types. Of several attachments the kind that comes first here is the value.
_ATTACHMENTS = _family_by_name(
    {
        "program": "exe, scr, com, pif, bat, cmd, msi, jar, js, jse, vbs, vbe, wsf, hta, lnk, ps1, cpl, reg, apk",
        "archive": "zip, rar, 7z, gz, tgz, bz2, xz, tar, cab, ace, arj, iso, img",
        "page": "htm, html, shtml, xhtml, mht, svg",
        "document": "pdf, doc, docx, docm, rtf, xls, xlsx, xlsm, ppt, pptx, odt, ods, csv, one",
        "message": "eml, message/rfc822",
        "calendar": "ics, text/calendar",
        "image": "image",
        "media": "audio, video",
        "signature": "asc, p7s, application/pgp-signature",
    }
)
_ATTACHMENT_KINDS = tuple(dict.fromkeys(_ATTACHMENTS.values()))

ATTRIBUTE_VALUES: Mapping[str, tuple[str, ...]] = {
    "type": (
        *("text/plain", "text/html", "multipart/alternative", "multipart/mixed", "multipart/related"),
        *("multipart/signed", "multipart/report", "none", "other"),
    ),
    "body": ("plain", "html", "both", "disguised", "none", "other"),
    "charset": (*dict.fromkeys(_CHARSETS.values()), "none", "other"),
    "encoding": ("7bit", "8bit", "quoted-printable", "base64", "binary", "none", "other"),
    "program": (*dict.fromkeys(_PROGRAMS.values()), "none", "other"),
    "script": SCRIPTS,
    "zone": ("west", "zero", "unknown", "east", "far east", "none", "other"),
    "reply": ("fresh", "answer", "claimed answer", "forward", "other"),
    "hops": ("none", "1", "2", "3", "4", "5", "6", "other"),
    "list": ("none", "list", "newsletter", "bulk", "other"),
    "attachment": ("none", *_ATTACHMENT_KINDS, "other"),
    "subject": ("none", "capitals", "lower", "title", "sentence", "other"),
    "priority": ("none", "high", "normal", "low", "other"),
    "to": ("none", "undisclosed", "one", "several", "other"),
}
"""The values of each attribute; the last one is "other"."""

_ANSWER = re.compile(r"\s*(?:re|aw|sv|antw)(?:\[\d{1,3}\])?\s*:\s*", re.IGNORECASE)
_FORWARD = re.compile(r"\s*(?:fwd?|wg|tr)\s*:\s*", re.IGNORECASE)
_ZONE = re.compile(r"\d:\d\d(?::\d\d)?\s*(?:([+-])(\d\d)(\d\d)|([A-Za-z]{1,5}))")
_NAMED_ZONES = {
    **dict.fromkeys(("UT", "UTC", "GMT", "Z"), "zero"),
    **dict.fromkeys(("EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT"), "west"),  # RFC 5322 4.3
}
_PRIORITIES = {"1": "high", "2": "high", "3": "normal", "4": "low", "5": "low"}


def extract_attributes(message: Message) -> tuple[tuple[str, str], ...]:
    """Return (attribute, value) pairs in the order of ``ATTRIBUTE_VALUES``; a bare text has only a script."""
    if not message.is_mail:
        return (
            (
                "script",
                detect_script(decode_text(message.raw[: min(SAMPLE_BYTES, message.limits.look_bytes)], None)),
            ),
        )
    fields = message.fields[:MAX_FIELDS]
    first = {
        field.name: only_known(decode_encoded_words(field.value[:MAX_VALUE_BYTES]))
        for field in reversed(fields)
        if field.name in _READ_FIELDS
    }
    parts = message.parts[:MAX_PARTS]
    text = next((part for part in parts if _is_text(part) and part.payload), None)
    sample = decode_text(text.payload[:SAMPLE_BYTES], text.charset) if text else ""
    attributes = {
        "type": parts[0].content_type if "content-type" in first else "none",
        "body": _body_form(parts, text, sample),
        "charset": _charset_family(text),
        "encoding": (text.transfer_encoding or "none") if text else "none",
        "program": _program_family(first.get("user-agent") or first.get("x-mailer")),
        "script": detect_script(sample),
        "zone": _time_zone(first.get("date")),
        "reply": _reply_kind(first),
        "hops": str(sum(field.name == "received" for field in fields) or "none"),
        "list": _list_kind(first),
        "attachment": _attachment_kind(parts),
        "subject": _subject_case(first.get("subject", "")),
        "priority": _priority(first),
        "to": _recipients_kind(first.get("to")),
    }
    return tuple(
        (name, attributes[name] if attributes[name] in values else "other")
        for name, values in ATTRIBUTE_VALUES.items()
    )


def _is_text(part: MimePart) -> bool:
    return not part.is_container and part.content_type.startswith("text/")


def _body_form(parts: tuple[MimePart, ...], text: MimePart | None, sample: str) -> str:
    """Return the form in which the text is sent; "disguised" is HTML that is declared as plain text."""
    types = {part.content_type for part in parts if _is_text(part)}
    if {"text/plain", "text/html"} <= types:
        return "both"
    if "text/html" in types:
        return "html"
    if "text/plain" in types:
        return "disguised" if text and is_html(text.content_type, sample[:200].lower()) else "plain"
    return "other" if types else "none"


def _charset_family(text: MimePart | None) -> str:
    if text is None or not text.charset:
        return "none"
    return _CHARSETS.get(text.charset[:40].strip("\"' ").lower(), "other")


def _program_family(name: str | None) -> str:
    if not name:
        return "none"
    lower = name[:100].lower()
    return next((family for name_part, family in _PROGRAMS.items() if name_part in lower), "other")


def _time_zone(date: str | None) -> str:
    """Return the side of Greenwich; "unknown" is -0000, which does not say where it was sent (RFC 5322 3.3)."""
    if not date:
        return "none"
    zone = _ZONE.search(date[:80])
    if zone is None:
        return "other"
    sign, hours, minutes, name = zone.groups()
    if name:
        return _NAMED_ZONES.get(name.upper(), "other")
    offset_minutes = int(hours) * 60 + int(minutes)
    if offset_minutes > 14 * 60 or int(minutes) % 15 or int(minutes) >= 60:
        return "other"  # there is no such zone
    if sign == "-":
        return "west" if offset_minutes else "unknown"
    return "far east" if offset_minutes > 4 * 60 else "east" if offset_minutes else "zero"


def _reply_kind(first: Mapping[str, str]) -> str:
    """Return whether the message claims to be an answer and refers to another; "other" refers without "Re:"."""
    subject = first.get("subject", "")
    refers = "references" in first or "in-reply-to" in first
    if _FORWARD.match(subject):
        return "forward"
    if _ANSWER.match(subject):
        return "answer" if refers else "claimed answer"
    return "other" if refers else "fresh"


def _list_kind(first: Mapping[str, str]) -> str:
    if not first.keys().isdisjoint({"list-id", "list-post", "mailing-list"}):
        return "list"
    if "list-unsubscribe" in first:
        return "newsletter"
    if "precedence" not in first:
        return "none"
    return "bulk" if first["precedence"].strip().lower() in {"bulk", "junk", "list"} else "other"


def _attachment_kind(parts: tuple[MimePart, ...]) -> str:
    """Return the kind that comes first in ``_ATTACHMENTS``, of the parts that are no text or are files."""
    kinds = {_part_kind(part) for part in parts} - {""}
    return next((kind for kind in _ATTACHMENT_KINDS if kind in kinds), "other" if kinds else "none")


def _part_kind(part: MimePart) -> str:
    """Return what an attachment is, by its file name or else its type; empty for text and for containers."""
    extension = part.filename[-20:].rpartition(".")[2].strip().lower() if part.filename else ""
    main = part.content_type.partition("/")[0]
    for name in (extension, part.content_type, main):
        if name in _ATTACHMENTS:
            return _ATTACHMENTS[name]
    return "" if main in {"text", "multipart"} else "other"


def _subject_case(subject: str) -> str:
    """Return the case of the letters of the subject, without "Re:" and "Fwd:"."""
    while mark := _ANSWER.match(subject) or _FORWARD.match(subject):
        subject = subject[mark.end() :]
    if not subject or subject.isspace():
        return "none"
    if subject.isupper():
        return "capitals"
    if subject.islower():
        return "lower"
    if subject.istitle():
        return "title"
    return "sentence" if subject[:1].isupper() else "other"


def _priority(first: Mapping[str, str]) -> str:
    if "x-priority" in first:
        return _PRIORITIES.get(first["x-priority"].strip()[:1], "other")
    return first["importance"].strip().lower() if "importance" in first else "none"


def _recipients_kind(to: str | None) -> str:
    if not to:
        return "none"
    if "undisclosed" in to[:200].lower():
        return "undisclosed"
    addresses = to.count("@")
    return "several" if addresses > 1 else "one" if addresses else "other"

"""Changes to the header of a message as data, and their application to raw bytes.

Rules: whoever decides says what changes, and each way out applies it in its own protocol. The body stays as it is,
byte for byte.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from typing import NamedTuple

from nbstream.mail import header_fields, mbox
from nbstream.mail.encoded_words import decode_encoded_words
from nbstream.mail.lines import PIECE_BYTES, normalize_line_ends

# A tag at the beginning of the Subject, such as ``[SPAM]``: added for people, removed before a message is read.
#
# Rules: a tag is ASCII, at most 44 characters without white space at its ends, and white space or nothing follows
# it in a Subject. It is never added where it stands already. What is added and removed again leaves the same
# text: only white space may differ. A Subject of
# tags alone, or of white space, is removed with its field: a message without a Subject gets one for its tag, and
# nobody can tell the two apart later.

_WORD_BYTES = 45  # an encoded word has at most 75 characters, RFC 2047 2
_MAX_LINE_CHARACTERS = 76  # of a line with an encoded word, RFC 2047 2; RFC 5322 2.1.1 has 78 for all
_MAX_ENCODED_BYTES = 16 * 1024  # of a Subject whose encoded words are read: 256 KB of them take 30 ms and more
_NAME = "subject"
_FIELD_START = b"Subject:"
_WHITE_SPACE = b" \t\r\n"


def tag_subject(raw: bytes, tag: str) -> bytes | None:
    """Return ``raw`` (CRLF line ends) with the tag in its first Subject; None where it has no Subject."""
    span = header_fields.find_value_span(raw, _NAME)
    if span is None:
        return None
    value = raw[span.value_start : span.end]
    tagged = tagged_value(value, tag)
    return raw if tagged == value else b"".join((raw[: span.value_start], tagged, raw[span.end :]))


def untag_subject(raw: bytes, tag: str) -> bytes:
    """Return ``raw`` (CRLF line ends) without the tag in its first Subject, however often it is there."""
    span = header_fields.find_value_span(raw, _NAME)
    if span is None:
        return raw
    value = raw[span.value_start : span.end]
    rest = untagged_value(value, tag)
    if not rest.strip(_WHITE_SPACE):
        line_end = 2 if raw.startswith(b"\r\n", span.end) else 0
        return b"".join((raw[: span.start], raw[span.end + line_end :]))
    return raw if rest == value else b"".join((raw[: span.value_start], rest, raw[span.end :]))


def tagged_value(value: bytes, tag: str) -> bytes:
    """Return the value of a Subject, all behind the colon, with the tag; unchanged where it begins with it."""
    if untagged_value(value, tag) != value:
        return value
    rest = value if not value or value[:1] in _WHITE_SPACE else b" " + value
    first_line = rest.partition(b"\r\n")[0]
    is_long = len(_FIELD_START) + 1 + len(tag) + len(first_line) > _MAX_LINE_CHARACTERS
    fold = b"\r\n" if is_long and first_line.strip() else b""
    return b" " + tag.encode() + fold + rest


def untagged_value(value: bytes, tag: str) -> bytes:
    """Return the value of a Subject without the tags at its beginning; unchanged where there is none."""
    in_bytes, in_text = _tag_patterns(tag)
    tags = in_bytes.match(value)
    rest = value[tags.end() :] if tags else value
    if len(rest) > _MAX_ENCODED_BYTES or not rest.lstrip(_WHITE_SPACE).startswith(b"=?"):
        return rest
    # Another program has encoded the Subject with the tag in it, perhaps over several words.
    text = decode_encoded_words(rest)
    tags_in_text = in_text.match(text)
    return b" " + _encode_text(text[tags_in_text.end() :].strip()) if tags_in_text else rest


@lru_cache(maxsize=4)
def _tag_patterns(tag: str) -> tuple[re.Pattern[bytes], re.Pattern[str]]:
    """Return patterns for one or more tags at the beginning: in a raw value, and in its text."""
    escaped = re.escape(tag)
    return (
        re.compile(rf"(?:[ \t\r\n]*+{escaped}(?=[ \t\r\n]|\Z))+".encode()),
        re.compile(rf"(?:\s*+{escaped}(?=\s|\Z))+"),
    )


def _encode_text(text: str) -> bytes:
    """Return a text as the value of a field: as it is, or as encoded words in UTF-8."""
    if text.isascii() and text.isprintable() and "=?" not in text:
        return text.encode("ascii")
    words: list[str] = []
    word, size = "", 0
    for character in text:
        width = len(character.encode("utf-8", "replace"))
        if size + width > _WORD_BYTES:
            words.append(word)
            word, size = "", 0
        word, size = word + character, size + width
    return b"\r\n ".join(_encoded_word(word) for word in (*words, word))


def _encoded_word(text: str) -> bytes:
    return b"=?utf-8?B?" + base64.b64encode(text.encode("utf-8", "replace")) + b"?="


class HeaderEdits(NamedTuple):
    """What changes in the header of a message.

    ``added`` are fields as (name, value), in the order in which they go on top. A line end in a value is a fold,
    and a tab follows it. ``removed_names``: every field of these names that the message came with is removed.
    ``guard`` is the name of the empty field that a first line gets which continues no field; else it would become
    part of the last of the added ones.
    """

    added: tuple[tuple[str, str], ...] = ()
    removed_names: tuple[str, ...] = ()
    guard: str = "X-Continued"
    subject_tag: str = ""

    def after_removal(self, names: tuple[str, ...]) -> HeaderEdits:
        """Return what is left to do to a message whose fields of these names are removed already."""
        left = () if self.removed_names == names else tuple(n for n in self.removed_names if n not in names)
        return HeaderEdits(self.added, left, self.guard, self.subject_tag)


def edit_message(raw: bytes, edits: HeaderEdits) -> tuple[bytes, bytes]:
    """Return the added fields as bytes, and the rest of the message ``raw`` that goes below them.

    ``raw`` and both results have CRLF line ends. The rest is ``raw`` itself where nothing in it changes.
    """
    rest = header_fields.strip_fields(raw, edits.removed_names) if edits.removed_names else raw
    added = edits.added
    if edits.subject_tag:
        tagged = tag_subject(rest, edits.subject_tag)
        if tagged is None:
            added = (*added, ("Subject", edits.subject_tag))
        else:
            rest = tagged
    return header_fields.prepend_fields(b"", added), header_fields.guard_first_line(rest, edits.guard)


# Header fields on a message with any line ends, for programs that want the message back as they sent it.
#
# Rules: every byte of the body stays; the header has the line ends of its first line. The header ends where it
# would end after ``lines.normalize_line_ends``, so that every field that was read can be removed.

# The end of a line and the start of an empty line; the CR and LF of one CRLF are not both.
_EMPTY_LINE_STARTS = (b"\n\n", b"\n\r", b"\r\r")
_LINE_END = re.compile(rb"\r\n|\r|\n")


def split_header_and_body(raw: bytes) -> tuple[bytes, bytes]:
    """Return the header with its empty line, if it has one, and the body."""
    blank = _blank_line_start(raw)
    end = blank + (2 if raw.startswith(b"\r\n", blank) else 1)
    return raw[:end], raw[end:]


def _blank_line_start(raw: bytes) -> int:
    """Return where the first empty line begins; the length of ``raw`` where there is none."""
    if raw[:1] in {b"\r", b"\n"}:
        return 0
    # In windows: in one step, 50 MB without an empty line hold the interpreter lock for 0.15 s, by a pattern 1 s.
    for start in range(0, len(raw), PIECE_BYTES):
        end = start + PIECE_BYTES + 1
        positions = [raw.find(empty_line_start, start, end) for empty_line_start in _EMPTY_LINE_STARTS]
        if starts := [position + 1 for position in positions if position >= 0]:
            return min(starts)
    return len(raw)


def rewrite_header(header: bytes, edits: HeaderEdits) -> bytes:
    """Return a header with the edits; ``header`` is what ``split_header_and_body`` returned.

    The line that separates the message in an mbox stays above all fields.
    """
    start = mbox.separator_end(header)
    first_line_end = _LINE_END.search(header)
    rewritten = header[:start] + b"".join(edit_message(normalize_line_ends(header[start:]), edits))
    return rewritten.replace(b"\r\n", b"\n") if first_line_end and first_line_end[0] == b"\n" else rewritten

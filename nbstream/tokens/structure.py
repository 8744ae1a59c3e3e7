"""Turns the structure of a message into tokens: its tree of parts, attachments, encodings, sizes and markup."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from nbstream.tokens.unicode import only_known
from nbstream.tokens.words import text_shape

if TYPE_CHECKING:
    from nbstream.mail.mime import MimePart

_MAX_TEXT_CHARACTERS = 4000
_MAX_CACHED_BYTES = 200
_NUMBER = re.compile(r"\d{1,40}")
_BOUNDARY = re.compile(rb"boundary\s*=\s*\"?([^\s\";]{1,80})", re.IGNORECASE)


def structure_tokens(parts: tuple[MimePart, ...]) -> list[str]:
    """Return the tokens of the MIME tree."""
    tokens = [f"tree:{_tree_outline(parts)}", f"parts:{min(len(parts), 9)}"]
    for part in parts[:20]:
        tokens += _part_tokens(part)
    kinds = [part.content_type.partition("/")[0] for part in parts]
    tokens += [f"kind:{kind}:{min(kinds.count(kind), 9)}" for kind in dict.fromkeys(kinds) if kind != "multipart"]
    return tokens


def bare_text_tokens(text: str) -> list[str]:
    """Return tokens for how a bare text is written: length, digits, capitals, marks and lengths of numbers.

    A bare text has nothing else beside its words. On 5,572 short messages (the SMS Spam Collection) these tokens
    reduced (1-AUC)% from 2.2 to 0.5. In mail they made no difference.
    """
    text = only_known(text[:_MAX_TEXT_CHARACTERS])
    tokens = [f"text.length:{len(text).bit_length()}", f"text.twenties:{len(text) // 20}"]
    tokens.append(f"text.digits:{_eighths(sum(map(str.isdigit, text)), len(text))}")
    tokens.append(f"text.capitals:{_eighths(sum(map(str.isupper, text)), len(text))}")
    tokens += [f"text.mark:{c}" for c in dict.fromkeys(text) if not c.isalnum() and not c.isspace()][:40]
    return tokens + [f"text.number:{len(number)}" for number in dict.fromkeys(_NUMBER.findall(text))][:40]


def _eighths(part: int, whole: int) -> int:
    """Return ``part`` in eighths of ``whole``, rounded up."""
    return -(-8 * part // max(whole, 1))


def _tree_outline(parts: tuple[MimePart, ...]) -> str:
    """Return the short types of the first parts with their depth, such as ``0m/mixed,1t/plain``."""
    return ",".join(f"{part.depth}{_short_type(part.content_type)}" for part in parts[:4])


def _short_type(content_type: str) -> str:
    main, _, sub = content_type.partition("/")
    return f"{main[:1]}/{sub[:10]}"


def _part_tokens(part: MimePart) -> list[str]:
    tokens = [f"type:{part.content_type}"]
    if part.charset is not None:
        tokens.append(f"charset:{part.charset.lower()[:20]}")
    if part.transfer_encoding:
        tokens.append(f"encoding:{part.transfer_encoding[:20]}:{_short_type(part.content_type)}")
    if part.disposition:
        tokens.append(f"disposition:{part.disposition[:20]}")
    if part.filename:
        tokens += file_name_tokens(part.filename)
    for field in part.fields:
        if field.name == "content-type":
            tokens += (
                _content_type_tokens_cached(field.value)
                if len(field.value) <= _MAX_CACHED_BYTES
                else _content_type_tokens(field.value)
            )
    if not part.is_container:
        tokens += _payload_tokens(part)
    return tokens


def file_name_tokens(filename: str) -> list[str]:
    """Return tokens for the name of a file: its end, its outline, and the type that it has by its name."""
    name = only_known(filename).lower()
    return [f"file:{name[-40:]}", f"file.shape:{text_shape(name)}", f"file.type:{file_type(filename)}"]


def file_type(filename: str) -> str:
    """Return the type that a file has by its name, such as "html"."""
    return only_known(filename).lower().rpartition(".")[2][:10]


def _content_type_tokens(value: bytes) -> list[str]:
    """Return tokens for how the Content-Type is written: the outline of the field, and of its boundary."""
    boundary = _BOUNDARY.search(value) if b"=" in value else None
    # ``encode_tokens`` encodes everything twice where a token contains a line feed.
    outline = text_shape(value[:120].decode("latin-1"), 40).replace("\n", "_")
    tokens = [f"content-type:{outline}"]
    if boundary:
        tokens.append(f"boundary:{text_shape(boundary[1].decode('latin-1'))}")
    return tokens


_content_type_tokens_cached = lru_cache(maxsize=512)(_content_type_tokens)


def _payload_tokens(part: MimePart) -> list[str]:
    size = len(part.payload)
    tokens = [f"size:{_short_type(part.content_type)}:{size.bit_length()}"]
    if not part.content_type.startswith("text/") and size:
        tokens.append(f"content:{hashlib.blake2b(part.payload, digest_size=8).hexdigest()}")
    return tokens

"""Where a token came from, in words, by the prefix of the token.

Rules: pure, and never raises. A header field that has no words of its own here is described by its name, as the
token has it. Whoever wrote the message may have chosen a name that has words here for something else.
"""

from __future__ import annotations

from nbstream.tokens.private_tokens import is_private

ORIGINS = {
    "body": "text",
    "url": "link: host",
    "url.path": "link: path",
    "url.scheme": "link: scheme",
    "url.user": "link: user",
    "url.port": "link: port",
    "url.host": "link: host's form",
    "url.query": "link: query",
    "tree": "structure: parts' types",
    "parts": "structure: parts",
    "kind": "structure: kinds of parts",
    "type": "part: type",
    "charset": "part: charset",
    "encoding": "part: encoding",
    "disposition": "part: disposition",
    "file": "part: file name",
    "file.shape": "part: file name's form",
    "file.type": "part: file type",
    "content-type": "part: type's form",
    "boundary": "part: boundary's form",
    "size": "part: size",
    "content": "part: content",
    "hidden": "structure: hidden text",
    "absent": "header: missing field",
    "field": "header: field as written",
    "fields": "header: none",
    "order": "header: order of fields",
    "same-domain": "header: same domain",
    "reply": "header: reply to something",
    "raw": "header: as written",
    "received": "Received: host or hops",
    "message-id": "Message-ID: form or host",
    "date": "Date: zone",
    "authentication-results": "result of authentication",
    "autolearn": "limit of automatic learning",
    "known.answer": "whom we know: answers mail of ours",
    "known.answer.other": "whom we know: cites mail of ours to others",
    "known.sender": "whom we know: a user wrote to the sender",
}
"""The origin of a token, by each prefix that is not the name of a header field."""

_PRIVATE_ORIGINS = {
    "type": "structure, hashed",
    "from": "sender or host, hashed",
    "date": "header: form, hashed",
    "field": "header: layout, hashed",
    "head": "header, hashed",
    "subject": "Subject, hashed",
    "body": "text, hashed",
    "url": "link, hashed",
    "raw": "header as written, hashed",
}

_ASPECT_TEXTS = {
    "name": "name",
    "local": "local part's form",
    "addresses": "number of addresses",
    "shape": "form",
    "capitals": "all capitals",
    "spaces": "double spaces",
    "end": "last mark",
    "length": "length",
    "selector": "selector",
}

_SPELLINGS = {"dkim": "DKIM", "domainkey": "DomainKey", "arc": "ARC"}


def token_origin(token: str) -> str:
    """Return where ``token`` came from: ``text``, ``link: host``, ``Subject``, ``From: name``, ``X-Mailer`` ..."""
    prefix = token.partition(":")[0]
    if is_private(token.encode("utf-8", "replace")):
        return _PRIVATE_ORIGINS[prefix]
    if prefix in ORIGINS:
        return ORIGINS[prefix]
    field, dot, aspect = prefix.rpartition(".")
    if prefix.startswith("text."):
        return f"text: {aspect}"
    if dot and aspect in _ASPECT_TEXTS:
        return f"{_field_title(field)}: {_ASPECT_TEXTS[aspect]}"
    return _field_title(prefix)


def _field_title(field: str) -> str:
    """Return the name of a field in its usual spelling."""
    return "-".join(_SPELLINGS.get(word) or word.capitalize() for word in field.split("-"))

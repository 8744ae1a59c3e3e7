"""Queries and forms as a browser sends them: decoded, bounded, and well-formed whatever was sent.

Rules: a wrong encoding is replaced (U+FFFD), never refused: whoever follows an old or cut link should see a page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from nbstream.server.api_json import is_message_id
from nbstream.store.recent.message_rows import RowPosition, normalize_address
from nbstream.web.requests import PageRefused

if TYPE_CHECKING:
    from aiohttp import web

    from nbstream.server.http.responses import BodyReader
    from nbstream.web.requests import PageRequest


FORM_TYPE = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 64 << 10
MAX_FORM_FIELDS = 1000
_MAX_QUERY_FIELDS = 100
_MAX_ID_LENGTH = 64


def well_formed(text: str) -> str:
    """Return ``text`` with what is no character replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_query(raw_query: str) -> Mapping[str, str]:
    """Return the first value of each parameter. Raises ``PageRefused`` for too many."""
    query: dict[str, str] = {}
    for name, value in _read_fields(well_formed(raw_query), _MAX_QUERY_FIELDS):
        query.setdefault(name, value)
    return query


async def receive_form(request: web.BaseRequest, bodies: BodyReader) -> Mapping[str, Sequence[str]]:
    """Return the form of a POST. Raises ``RequestRefused``, and ``PageRefused`` for what is no form."""
    if request.content_type != FORM_TYPE:
        raise PageRefused(415, f"a form must be of type {FORM_TYPE}")
    with bodies.reservation() as held:
        return read_form(await bodies.read(request, held))


def read_form(body: bytes) -> Mapping[str, Sequence[str]]:
    """Return all values of each field. Raises ``PageRefused`` for too many."""
    form: dict[str, list[str]] = {}
    for name, value in _read_fields(body.decode("utf-8", "replace"), MAX_FORM_FIELDS):
        form.setdefault(name, []).append(value)
    return form


def link_to(path: str, filters: Mapping[str, str], **others: str) -> str:
    """Return the address of a page; its query has those of the values that are not empty."""
    query = urlencode({name: value for name, value in {**filters, **others}.items() if value})
    return f"{path}?{query}" if query else path


def _read_fields(text: str, limit: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=limit)
    except ValueError as error:
        raise PageRefused(400, f"a request may have {limit} fields at most") from error


MAX_SELECTED = 100
"""How many messages can be selected at a time."""


def read_selected_ids(request: PageRequest) -> Sequence[str]:
    """Return the ids that a form selects, each once. Raises ``PageRefused`` for none and for too many."""
    ids = list(dict.fromkeys(filter(is_message_id, request.form.get("id", ()))))
    if not ids:
        raise PageRefused(400, "Nothing was changed: no message was selected. Tick some in the list first.")
    if len(ids) > MAX_SELECTED:
        raise PageRefused(400, f"Nothing was changed: at most {MAX_SELECTED} messages can be selected at a time.")
    return ids


def read_address(filters: dict[str, str], name: str, problems: list[str]) -> str:
    """Return the address of the filter of this name, or ``@`` and a domain; a domain alone is taken as that.

    ``filters`` then has it as it was understood. What no address can match is left out, and ``problems`` say so.
    """
    written = filters[name]
    local, _, domain = written.rpartition("@")
    if "*" in domain or local == "*":
        problems.append(
            f"{written} is not looked for: only a whole address is, such as ann@x.org, or a whole domain, "
            "such as @x.org."
        )
        written = ""
    elif "." in written and "@" not in written:
        written = f"@{written}"
    filters[name] = written
    return normalize_address(written) if written else ""


def read_position(value: str) -> RowPosition | None:
    """Return the position that a link names, None for anything else."""
    at, separator, message_id = value.partition("_")
    try:
        checked_at = float(at)
    except ValueError:
        return None
    if not separator or not message_id or not math.isfinite(checked_at):
        return None
    return RowPosition(checked_at, message_id[:_MAX_ID_LENGTH])

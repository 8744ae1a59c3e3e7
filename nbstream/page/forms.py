"""Queries and forms as a browser sends them: decoded, bounded, and well-formed whatever was sent.

Rules: a wrong encoding is replaced (U+FFFD), never refused: whoever follows an old or cut link should see a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from nbstream.page.requests import PageRefused

if TYPE_CHECKING:
    from aiohttp import web

    from nbstream.listeners.http.bodies import BodyReader


FORM_TYPE = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 64 << 10
MAX_FORM_FIELDS = 1000
_MAX_QUERY_FIELDS = 100


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
    async with bodies.read(request) as body:
        return read_form(body)


def read_form(body: bytes) -> Mapping[str, Sequence[str]]:
    """Return all values of each field. Raises ``PageRefused`` for too many."""
    form: dict[str, list[str]] = {}
    for name, value in _read_fields(body.decode("utf-8", "replace"), MAX_FORM_FIELDS):
        form.setdefault(name, []).append(value)
    return form


def _read_fields(text: str, limit: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=limit)
    except ValueError as error:
        raise PageRefused(400, f"a request may have {limit} fields at most") from error


# Whether a page of this host made a request.
#
# Rules: a browser says in ``Sec-Fetch-Site`` or ``Origin`` which site made a request, and no script can change
# that. So a request with the cookie of a session, but of another site, is refused (CSRF). The field ``Host``
# proves nothing (DNS rebinding): it is compared with ``Origin`` alone.


def may_ask(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether such a request is answered at all.

    A POST must be of a page of this host. Whoever follows a link from elsewhere, or types an address, may read;
    the scripts and pictures of another site may not.
    """
    is_own = _is_of_this_host(headers)
    if method == "POST":
        return is_own is True
    is_of_person = headers.get("Sec-Fetch-Mode") == "navigate" or headers.get("Sec-Fetch-Site") == "none"
    return is_own is not False or is_of_person


def _is_of_this_host(headers: Mapping[str, str]) -> bool | None:
    """Return whether a page of this host made the request; None where the browser says nothing of it."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("Origin")
    if origin is None:
        return None
    try:
        return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower() != ""
    except ValueError:
        return False

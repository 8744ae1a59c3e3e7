"""Whether a page of this host made a request.

Rules: a browser says in ``Sec-Fetch-Site`` or ``Origin`` which site made a request, and no script can change that.
So a request with the cookie of a session, but of another site, is refused (CSRF). The field ``Host`` proves
nothing (DNS rebinding): it is compared with ``Origin`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


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

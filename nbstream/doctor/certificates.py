"""Certificates of TLS (X.509): until when they are valid. Pure.

Python's ``ssl`` reads a certificate only while it checks one, and an expired one fails that check. So the date is
found in the certificate itself: its validity is two dates of a fixed form, one after the other (RFC 5280, section
4.1.2.5).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nbstream.findings import ok, problem, warning

if TYPE_CHECKING:
    from nbstream.findings import Finding

EXPIRED = problem(
    "certificate.{name}",
    "The certificate of listeners.{name} expired on {date}.",
    "Renew it, and run nbstream reload: the daemon keeps the one that it has read.",
)
EXPIRES_SOON = warning(
    "certificate.{name}",
    "The certificate of listeners.{name} expires in {days} days, on {date}.",
    "Renew it, and run nbstream reload: the daemon keeps the one that it has read.",
)
VALID = ok("certificate.{name}", "The certificate of listeners.{name} is valid until {date}.")
HOP_EXPIRED = warning(
    "certificate.next_hop",
    "The certificate of the next hop expired on {date}; relay.tls = {mode} does not look at it.",
    "Renew it on that server, or relay.tls = verify would stop all mail.",
)
HOP_EXPIRES_SOON = warning(
    "certificate.next_hop",
    "The certificate of the next hop expires in {days} days, on {date}.",
    "Renew it on that server: after that day no mail leaves with relay.tls = verify.",
)
HOP_VALID = ok("certificate.next_hop", "The certificate of the next hop is valid until {date}.")

_SOON_DAYS = 14
_VALIDITY = re.compile(rb"(?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z")
"""Each date is a UTCTime, whose year has two digits, or a GeneralizedTime: its tag, its length, its digits."""


def listener_certificate(name: str, certificate: bytes, now: datetime) -> Finding:
    """Return what is to be said of the certificate of a listener. Raises ``ValueError`` where it is none."""
    end, days = _end_and_days(certificate, now)
    kind = EXPIRED if end <= now else EXPIRES_SOON if days < _SOON_DAYS else VALID
    return kind(name=name, days=days, date=f"{end:%Y-%m-%d}")


def next_hop_certificate(mode: str, certificate: bytes, now: datetime) -> Finding:
    """Return what is to be said of the certificate of the next hop. Raises ``ValueError`` where it is none."""
    end, days = _end_and_days(certificate, now)
    kind = HOP_EXPIRED if end <= now else HOP_EXPIRES_SOON if days < _SOON_DAYS else HOP_VALID
    return kind(mode=mode, days=days, date=f"{end:%Y-%m-%d}")


def _end_and_days(certificate: bytes, now: datetime) -> tuple[datetime, int]:
    end = valid_until(certificate)
    return end, (end - now).days


def valid_until(certificate: bytes) -> datetime:
    """Return the end of the validity (notAfter) of a certificate (DER). Raises ``ValueError`` where it is none."""
    found = _VALIDITY.search(certificate)
    if found is None:
        raise ValueError("no certificate, or one without dates")
    short, full = found.groups()
    digits = full or (b"20" if short < b"50" else b"19") + short  # RFC 5280 4.1.2.5.1
    return datetime.strptime(digits.decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)

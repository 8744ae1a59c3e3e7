"""Certificates of TLS (X.509): until when they are valid. Pure.

Python's ``ssl`` reads a certificate only while it checks one, and an expired one fails that check. So the date is
read from the certificate itself: RFC 5280, section 4.1, in the encoding DER (ITU-T X.690).
"""

from __future__ import annotations

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
_SEQUENCE, _VERSION = 0x30, 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18


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
    to_be_signed = _Elements(_Elements(certificate).next(_SEQUENCE)).next(_SEQUENCE)
    fields = _Elements(to_be_signed)
    if fields.tag == _VERSION:
        fields.next()
    for _ in ("serial number", "signature algorithm", "issuer"):
        fields.next()
    validity = _Elements(fields.next(_SEQUENCE))
    validity.next()  # notBefore
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(validity.tag)
    if form is None:
        raise ValueError("no date where the validity of a certificate ends")
    text = validity.next().decode("ascii")
    if form.startswith("%y"):  # two digits of the year mean 1950 to 2049, RFC 5280 4.1.2.5.1
        text, form = ("20" if text < "50" else "19") + text, "%Y%m%d%H%M%SZ"
    return datetime.strptime(text, form).replace(tzinfo=UTC)


class _Elements:
    """The elements of DER one after the other: a byte for the tag, the length, the content."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def tag(self) -> int:
        """The tag of the next element."""
        if len(self._data) < 2:
            raise ValueError("a certificate that ends too early")
        return self._data[0]

    def next(self, tag: int | None = None) -> bytes:
        """Return the content of the next element, which must have that tag where one is given."""
        if tag not in {None, self.tag}:
            raise ValueError("no certificate")
        size, start = self._data[1], 2
        if size & 0x80:  # so many bytes of length follow
            start += size & 0x7F
            size = int.from_bytes(self._data[2:start], "big")
        content, self._data = self._data[start : start + size], self._data[start + size :]
        if len(content) < size:
            raise ValueError("a certificate that ends too early")
        return content

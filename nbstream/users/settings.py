"""The settings of what users get: the digest of what was held back."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, Strict

from nbstream.policy.address_patterns import AddressPattern, first_matching_pattern
from nbstream.policy.settings import MailAddress, read_address_pattern
from nbstream.settings.values import Section, read_path

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_BASE_URL = re.compile(r"https?://[A-Za-z0-9\[\]._:-]{1,253}(/[A-Za-z0-9._~/-]{0,200})?")


class Weekday(StrEnum):
    """The days of the week, the first of which is Monday, as in ``time.struct_time``."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


def read_time_of_day(value: object) -> str:
    """Read a time of the day from ``"00:00"`` to ``"23:59"``. Without quotes YAML takes some for a number."""
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        raise ValueError('must be a time in quotes, from "00:00" to "23:59"')
    return value


def read_base_url(value: object) -> str:
    """Read the address of a site, ``http://`` or ``https://``, without a query."""
    if not isinstance(value, str) or _BASE_URL.fullmatch(value) is None or not _has_host(value):
        raise ValueError("must be an address such as https://mail.example.org, without ? and #")
    return value.rstrip("/")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def read_folder(value: object) -> Path:
    """Read the path of a folder that there is."""
    path = read_path(value)
    if not path.is_dir():
        raise ValueError("must be a folder")
    return path


def read_weekday(value: object) -> Weekday:
    """Read the English name of a day, in lower case."""
    if isinstance(value, str) and value in set(Weekday):
        return Weekday(value)
    raise ValueError(f"must be one of {', '.join(Weekday)}")


AddressPatterns = Annotated[
    tuple[Annotated[AddressPattern, BeforeValidator(read_address_pattern)], ...],
    Strict(False),
    Field(max_length=200),
]


class DigestSettings(Section):
    """The mail to each user about what was held back for him: to whom, when, and what its links lead to."""

    recipients: Annotated[AddressPatterns, Field(min_length=1)]
    """Patterns of the addresses that get a digest, such as ``*@example.org``: ``*`` is any characters, ``?`` one
    character. It goes only to addresses to which the held mail itself was addressed.
    """

    exclude: AddressPatterns = ()
    """Patterns of addresses that get none all the same. Name all mailing lists and shared addresses here: whoever
    reads a digest can release what is in it.
    """

    sender: MailAddress
    """The address in From. The sender of the envelope is empty, so that no bounce comes back."""

    base_url: Annotated[str, BeforeValidator(read_base_url)]
    """The address at which users reach ``listeners.http`` of this daemon, such as ``https://mail.example.org``."""

    schedule: Literal["daily", "weekly"] = "daily"
    """How often a digest is sent, where there is something new."""

    at: Annotated[str, BeforeValidator(read_time_of_day)] = "07:00"
    """When it is sent, in the time zone of the machine. What could not be sent then is sent as soon as it can."""

    weekday: Annotated[Weekday, BeforeValidator(read_weekday)] = Weekday.MONDAY
    """The day on which a weekly digest is sent."""

    language: Literal["en", "de"] = "en"
    """The language of the digest: English or German."""

    template_dir: Annotated[Path, BeforeValidator(read_folder)] | None = None
    """A folder with templates (Jinja) in place of those of nbstream: ``subject.txt``, ``digest.txt`` and
    ``digest.html``. One that is not there is that of nbstream in ``language``.
    """

    @property
    def warnings(self) -> list[str]:
        """One sentence where the links of the digest can be overheard."""
        if self.base_url.startswith("http://"):
            return ["digest.base_url is http://: whoever overhears a link of a digest can use it"]
        return []

    def is_recipient(self, address: str) -> bool:
        """Return whether this address may get a digest."""
        return (
            first_matching_pattern(self.recipients, address) is not None
            and first_matching_pattern(self.exclude, address) is None
        )

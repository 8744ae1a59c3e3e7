"""The URL of an IMAP folder (RFC 5092): ``imaps://ann@mail.example.org/Junk``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from nbstream.imap.connection import IMAP_PORTS, ImapAccount

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ImapFolder:
    """A folder of an account, by its name as people write it."""

    account: ImapAccount
    name: str

    def __str__(self) -> str:
        return f"{self.account}/{quote(self.name)}"


def parse_imap_url(url: str) -> ImapFolder:
    """Return the folder of a URL, in which user and folder are percent-encoded UTF-8.

    Raises ValueError, which says what is wrong, and shows no password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        user, name = (unquote(text, errors="strict") for text in (parts.username or "", parts.path[1:]))
    except ValueError as error:
        raise ValueError(f"is no URL of a folder: {error}") from None
    if parts.password is not None:
        raise ValueError("has a password, which other users could see: leave it to --password-file or the prompt")
    if (
        parts.scheme not in IMAP_PORTS
        or not parts.hostname
        or not user
        or not name
        or parts.query
        or parts.fragment
    ):
        raise ValueError("is no imaps://USER@HOST/FOLDER or imap://USER@HOST/FOLDER, percent-encoded")
    if _CONTROL.search(user + name):
        raise ValueError("has a control character")
    account = ImapAccount(parts.hostname, port or IMAP_PORTS[parts.scheme], parts.scheme == "imaps", user)
    return ImapFolder(account, name)

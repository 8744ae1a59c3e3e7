"""What a folder is for: by the attributes that a server gives it, else by the name that a mail program gave it.

Rules: pure but for the file of names.

- What is within a trash or among drafts is what that folder is, whatever its own name: it is never learned.
- Elsewhere a folder's own attribute or name decides, and before the folders around it. ``INBOX`` is no level.
- A name that stands for two roles in two languages has the role that is not learned.
- A folder within junk whose name says nothing is left out, but for a number such as a year: people sort out there
  what is junk, and what is none.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

from nbstream.training.messages import FolderRole

_NAMES_FILE = Path(__file__).with_name("folder_names.txt")
_SHIFTED = re.compile(r"&([A-Za-z0-9+,]*)-")
_ACCENTS = range(0x300, 0x370)
_PARTS_OF_WORDS = frozenset("LMN")  # messages, marks and numbers
_VIRTUAL_FOLDERS = frozenset({"gmail", "googlemail", "virtual"})

_ROLES_BY_ATTRIBUTE = {
    # RFC 6154 and RFC 8457, and after them what XLIST of Gmail says
    "\\trash": FolderRole.TRASH,
    "\\drafts": FolderRole.DRAFTS,
    "\\all": FolderRole.OTHER,
    "\\flagged": FolderRole.OTHER,
    "\\important": FolderRole.OTHER,
    "\\sent": FolderRole.SENT,
    "\\junk": FolderRole.JUNK,
    "\\archive": FolderRole.ARCHIVE,
    "\\allmail": FolderRole.OTHER,
    "\\starred": FolderRole.OTHER,
    "\\spam": FolderRole.JUNK,
    "\\inbox": FolderRole.INBOX,
}
_NEVER_LEARNED = frozenset({FolderRole.TRASH, FolderRole.DRAFTS})


def folder_role(name: str, attributes: Collection[str] = ()) -> FolderRole:
    """Return the role of a folder by its name, with ``/`` between its levels, and its attributes of IMAP."""
    levels = name.split("/")
    if levels[0].upper() == "INBOX":
        levels = levels[1:]
    if not levels:
        return FolderRole.INBOX
    around = [role for level in levels[:-1] if (role := _role_by_name(level))]
    never = next((role for role in around if role in _NEVER_LEARNED), None)
    lowered = {attribute.lower() for attribute in attributes}
    own = next((role for attribute, role in _ROLES_BY_ATTRIBUTE.items() if attribute in lowered), None)
    if role := never or own or _role_by_name(levels[-1]):
        return role
    if any(_key(level) in _VIRTUAL_FOLDERS for level in levels[:-1]):
        return FolderRole.OTHER
    parent = around[-1] if around else FolderRole.SORTED
    if parent is FolderRole.JUNK and _key(levels[-1]):
        return FolderRole.OTHER
    return FolderRole.SORTED if parent is FolderRole.INBOX else parent


def decode_folder_name(raw: bytes) -> str:
    """Return the name of a folder as people write it, from modified UTF-7 (RFC 3501, 5.1.3) or UTF-8.

    What is neither is given as it stands, with escapes for its bytes: each name can be shown.
    """
    return _SHIFTED.sub(_decode_shifted, raw.decode("utf-8", "backslashreplace"))


def known_names() -> Iterator[tuple[str, FolderRole]]:
    """Yield all names that are known, with their roles."""
    role = FolderRole.OTHER
    for line in _NAMES_FILE.read_text("utf-8").splitlines():
        if line.startswith("["):
            role = FolderRole(line.strip("[]"))
        elif line and not line.startswith("#"):
            yield line, role


def _decode_shifted(match: re.Match[str]) -> str:
    encoded = match[1].replace(",", "/")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode("utf-16-be") or "&"
    except ValueError:
        return match[0]


def _role_by_name(name: str) -> FolderRole | None:
    return _roles_by_key().get(_key(name))


@cache
def _roles_by_key() -> Mapping[str, FolderRole]:
    return {_key(name): role for name, role in known_names()}


def _key(name: str) -> str:
    """Return what makes names different: their messages, without case, accents and digits at the end."""
    messages = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    return "".join(
        message
        for message in messages
        if unicodedata.category(message)[0] in _PARTS_OF_WORDS and ord(message) not in _ACCENTS
    ).rstrip("0123456789")

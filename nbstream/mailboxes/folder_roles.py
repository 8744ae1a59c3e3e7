"""What a folder is for: by its special-use attribute (RFC 6154), and else by the names that mail programs use.

Rules: pure. A folder in a folder has the role of the outermost one that has one; ``INBOX`` is no level.
"""

from __future__ import annotations

from collections.abc import Collection

from nbstream.mailboxes.letters import FolderRole

_ATTRIBUTES = {
    "\\junk": FolderRole.JUNK,
    "\\sent": FolderRole.SENT,
    "\\trash": FolderRole.TRASH,
    "\\drafts": FolderRole.DRAFTS,
    "\\archive": FolderRole.ARCHIVE,
    "\\all": FolderRole.OTHER,
}
_NAMES = {
    FolderRole.JUNK: ("Junk", "Junk E-mail", "Junk Email", "Spam", "Bulk Mail"),
    FolderRole.SENT: ("Sent", "Sent Items", "Sent Messages", "Sent Mail"),
    FolderRole.TRASH: ("Trash", "Deleted Items", "Deleted Messages", "Bin"),
    FolderRole.DRAFTS: ("Drafts", "Draft"),
    FolderRole.ARCHIVE: ("Archive", "Archives"),
    FolderRole.OTHER: ("Outbox", "Templates", "Notes", "All Mail"),
}
_ROLES = {name.casefold(): role for role, names in _NAMES.items() for name in names}


def folder_role(name: str, attributes: Collection[str] = ()) -> FolderRole:
    """Return the role of a folder by its name, with ``/`` between its levels, and its attributes of IMAP."""
    for attribute in attributes:
        if role := _ATTRIBUTES.get(attribute.lower()):
            return role
    levels = name.split("/")
    if levels[0].upper() == "INBOX":
        levels = levels[1:]
    if not levels:
        return FolderRole.INBOX
    roles = (_ROLES.get(level.strip().casefold()) for level in levels)
    return next((role for role in roles if role), FolderRole.SORTED)

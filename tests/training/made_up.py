"""Letters made up for the tests of the choice."""

from __future__ import annotations

from nbstream.training.folder_roles import folder_role
from nbstream.training.letters import Folder, Letter, LetterFlags, LetterHeader


def letter(
    folder: str,
    number: int,
    flags: LetterFlags = LetterFlags.SEEN,
    header: LetterHeader | None = None,
    size: int = 1000,
) -> Letter:
    """A letter that arrived ``number`` seconds after the beginning; its message has the number, too."""
    header = header or LetterHeader(identity=number + 1, message_id=number)
    return Letter(Folder(folder, folder_role(folder)), b"%d" % number, flags, number, size, header)

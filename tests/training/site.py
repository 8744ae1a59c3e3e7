"""Mailboxes in files that tests make up."""

from __future__ import annotations

import os
from pathlib import Path

from nbstream.training.files import MailboxFiles
from nbstream.training.messages import Account, MailboxMessage, MessagePlace, SkippedMail
from nbstream.training.template import PathTemplate, parse_template


def raw(number: int) -> bytes:
    return f"Message-ID: <{number}@example.org>\nSubject: message {number}\n\nthe text of {number}\n".encode()


def put(folder: Path, number: int, flags: str | None = "", mtime: int | None = None) -> Path:
    """A message in a Maildir, which is made; flags None stands for one that no program has seen."""
    for name in ("cur", "new", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    path = (
        folder / ("new" if flags is None else "cur") / f"{number}.M1.host{'' if flags is None else ':2,' + flags}"
    )
    path.write_bytes(raw(number))
    os.utime(path, (0, number if mtime is None else mtime))
    return path


class Site:
    """The mailboxes of a template below a folder, and what was skipped in them."""

    def __init__(self, root: Path, template: str = "%n", users: list[str] | None = None) -> None:
        parsed = parse_template(f"{root}/{template}")
        assert isinstance(parsed, PathTemplate)
        self.source = MailboxFiles(parsed, users, "X-Nbstream")
        self.skips: list[SkippedMail] = []

    def accounts(self) -> list[Account]:
        return list(self.source.accounts(self.skips.append))

    def messages(self, account: int = 0) -> list[MailboxMessage]:
        return list(self.source.messages(self.accounts()[account], self.skips.append))

    def places(self) -> list[MessagePlace]:
        account = self.accounts()[0]
        return [MessagePlace(account, message.folder, message.locator) for message in self.messages()]

    def read(self, places: list[MessagePlace]) -> list[tuple[int, bytes]]:
        """The messages at these places, each with the number of its place."""
        return [(places.index(place), raw) for place, raw in self.source.read(places, self.skips.append)]

    @property
    def reasons(self) -> list[str]:
        return [skip.why for skip in self.skips]

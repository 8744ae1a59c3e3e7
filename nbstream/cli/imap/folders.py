"""The messages of IMAP folders, in the order of their UIDs.

Rules: nothing changes in a folder, neither flags nor messages (EXAMINE, BODY.PEEK). Messages that are marked as
deleted are left out. The size of a message is asked before its content, and memory holds one message or some small
ones.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbstream.cli.imap.url import ImapFolder
from nbstream.cli.message_files import FolderPosition, NamedMessage
from nbstream.errors import ConfigError, InputError
from nbstream.imap.connection import ImapAccount, ImapError, LimitedClient, logged_in
from nbstream.settings.values import read_secret_file

MAX_MESSAGE_BYTES = 50 << 20
"""A larger message is left out and reported, as the listeners refuse it."""

_MAX_UID = (1 << 32) - 1
_UIDS_PER_COMMAND = 200
_BYTES_PER_COMMAND = 1 << 20
_FETCH_OVERHEAD = 1 << 16

_SEARCH_BYTES = 4 << 20  # about half a million messages; for the worst such answer IMAPClient takes 400 MB


@dataclass(frozen=True, slots=True)
class FolderRequest:
    """A folder to read, from the message after ``known`` on, where that is still the same folder."""

    folder: ImapFolder
    known: FolderPosition | None = None


def read_folders(
    requests: Iterable[FolderRequest],
    passwords: Mapping[ImapAccount, str],
    ca_file: Path | None,
    errors: list[InputError],
) -> Iterator[NamedMessage]:
    """Yield the messages of all folders; what cannot be read is added to ``errors`` and left out.

    ``ca_file`` has the certificates that are trusted; None stands for those of the system.
    """
    for request in requests:
        account = request.folder.account
        try:
            with logged_in(account, passwords[account], ca_file) as client:
                yield from _read_folder(client, request, errors)
        except ImapError as error:
            errors.append(InputError(f"{request.folder}: {error}"))


def _read_folder(
    client: LimitedClient, request: FolderRequest, errors: list[InputError]
) -> Iterator[NamedMessage]:
    with client.command("EXAMINE"):
        uid_validity = client.select_folder(request.folder.name, readonly=True).get(b"UIDVALIDITY")
    known = request.known
    first = known.uid + 1 if known and known.uid_validity == uid_validity else 1
    if first > _MAX_UID:
        return
    with client.command("UID SEARCH", text_bytes=_SEARCH_BYTES):
        found = client.search(f"UID {first}:* UNDELETED")
    uids = sorted({uid for uid in found if first <= uid <= _MAX_UID})  # the last message is always found
    for start in range(0, len(uids), _UIDS_PER_COMMAND):
        sizes = _read_sizes(client, uids[start : start + _UIDS_PER_COMMAND], request.folder, errors)
        for uid, raw in _read_contents(client, sizes):
            label = f"{request.folder}#{uid}"
            if not raw.strip():
                errors.append(InputError(f"{label}: empty, that is no message"))
                continue
            position = FolderPosition(str(request.folder), uid_validity, uid) if uid_validity else None
            yield NamedMessage(label, raw, position)


def _read_sizes(
    client: LimitedClient, uids: Sequence[int], folder: ImapFolder, errors: list[InputError]
) -> Mapping[int, int]:
    """Return the sizes of the messages that are not too large, by UID, without those that have gone meanwhile."""
    sizes: dict[int, int] = {}
    with client.command("UID FETCH"):
        answer = client.fetch(uids, ["RFC822.SIZE"])
    for uid, items in answer.items():
        size = items.get(b"RFC822.SIZE")
        if isinstance(size, int) and size > MAX_MESSAGE_BYTES:
            errors.append(InputError(f"{folder}#{uid}: larger than {MAX_MESSAGE_BYTES >> 20} MiB"))
        elif isinstance(size, int):
            sizes[uid] = size
    return sizes


def _read_contents(client: LimitedClient, sizes: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield UIDs and messages, some small ones with each command, without those that have gone meanwhile."""
    group: list[int] = []
    group_bytes = 0
    for uid, size in [*sizes.items(), (0, _BYTES_PER_COMMAND)]:
        if group and group_bytes + size > _BYTES_PER_COMMAND:
            # Some servers count line ends as one byte, so that the size they tell is too small.
            limit = 2 * max(group_bytes, _BYTES_PER_COMMAND) + _FETCH_OVERHEAD
            with client.command("UID FETCH", literal_bytes=limit):
                answer = client.fetch(group, ["BODY.PEEK[]"])
            for known, items in answer.items():
                if isinstance(raw := items.get(b"BODY[]"), bytes):
                    yield known, raw
            group, group_bytes = [], 0
        group.append(uid)
        group_bytes += size


# The passwords of IMAP accounts: from a file, or asked for on the terminal.


def read_passwords(accounts: Iterable[ImapAccount], password_file: Path | None) -> Mapping[ImapAccount, str]:
    """Return the password of each account; the one in the file is for all of them. Raises ``ConfigError``.

    They are at one server then: none gets to know the password of another one.
    """
    accounts = tuple(dict.fromkeys(accounts))
    if password_file is not None:
        if len(servers := sorted({account.host for account in accounts})) > 1:
            raise ConfigError(f"--password-file is for one server, and these are {', '.join(servers)}")
        try:
            secret = read_secret_file(password_file).secret.get_secret_value()
        except ValueError as error:
            raise ConfigError(f"--password-file {password_file}: {error}") from error
        return dict.fromkeys(accounts, secret)
    if not sys.stdin.isatty():
        raise ConfigError("without a terminal --password-file is needed")
    return {account: getpass.getpass(f"Password of {account}: ") for account in accounts}

"""IMAP folders by their URLs (RFC 5092), and their messages in the order of their UIDs.

Rules: nothing changes in a folder, neither flags nor messages (EXAMINE, BODY.PEEK). Messages that are marked as
deleted are left out. The size of a message is asked before its content, and memory holds one message or some small
ones.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from nbstream.cli.message_files import NamedMessage
from nbstream.errors import ConfigError, InputError, NbstreamError
from nbstream.server.imap import (
    MAX_MESSAGE_BYTES,
    UIDS_PER_COMMAND,
    ImapAccount,
    ImapError,
    LimitedClient,
    logged_in,
    read_contents,
    read_sizes,
)
from nbstream.settings.values import read_secret_file
from nbstream.training.template import read_imap_url


@dataclass(frozen=True, slots=True)
class ImapFolder:
    """A folder of an account, by its name as people write it."""

    account: ImapAccount
    name: str

    def __str__(self) -> str:
        return f"{self.account}/{quote(self.name)}"


def parse_imap_url(url: str) -> ImapFolder:
    """Return the folder of a URL. Raises ValueError, which says what is wrong, and shows no password."""
    form = "imaps://USER@HOST/FOLDER or imap://USER@HOST/FOLDER, percent-encoded"
    account, name = read_imap_url(url, form)
    if not name:
        raise ValueError(f"is no {form}")
    return ImapFolder(account, name)


_SEARCH_BYTES = 4 << 20  # about half a million messages; for the worst such answer IMAPClient takes 400 MB


def read_folders(
    folders: Iterable[ImapFolder],
    passwords: Mapping[ImapAccount, str],
    ca_file: Path | None,
    errors: list[NbstreamError],
) -> Iterator[NamedMessage]:
    """Yield the messages of all folders; what cannot be read is added to ``errors`` and left out.

    ``ca_file`` has the certificates that are trusted; None stands for those of the system.
    """
    for folder in folders:
        try:
            with logged_in(folder.account, passwords[folder.account], ca_file) as client:
                yield from _read_folder(client, folder, errors)
        except ImapError as error:
            errors.append(InputError(f"{folder}: {error}"))


def _read_folder(client: LimitedClient, folder: ImapFolder, errors: list[NbstreamError]) -> Iterator[NamedMessage]:
    with client.command("EXAMINE"):
        client.select_folder(folder.name, readonly=True)
    with client.command("UID SEARCH", text_bytes=_SEARCH_BYTES):
        uids = sorted({uid for uid in client.search("UNDELETED") if 0 < uid < 1 << 32})
    for start in range(0, len(uids), UIDS_PER_COMMAND):
        sizes = read_sizes(client, uids[start : start + UIDS_PER_COMMAND])
        small = {uid: size for uid, size in sizes.items() if size <= MAX_MESSAGE_BYTES}
        errors.extend(
            InputError(f"{folder}#{uid}: larger than {MAX_MESSAGE_BYTES >> 20} MiB")
            for uid in sorted(sizes.keys() - small.keys())
        )
        for uid, raw in read_contents(client, small):
            label = f"{folder}#{uid}"
            if not raw.strip():
                errors.append(InputError(f"{label}: empty, that is no message"))
                continue
            yield NamedMessage(label, raw)


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

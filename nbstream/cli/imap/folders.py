"""The messages of IMAP folders, in the order of their UIDs.

Rules: nothing changes in a folder, neither flags nor messages (EXAMINE, BODY.PEEK). Messages that are marked as
deleted are left out. The size of a message is asked before its content, and memory holds one message or some small
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nbstream.cli.imap.session import ImapError, ImapSession
from nbstream.cli.message_files import FolderPosition, NamedMessage
from nbstream.errors import InputError
from nbstream.wire import imap
from nbstream.wire.imap import FetchedMessage
from nbstream.wire.imap_url import ImapAccount, ImapFolder

MAX_MESSAGE_BYTES = 50 << 20
"""A larger message is left out and reported, as the listeners refuse it."""

_SEARCH_BYTES = 16 << 20  # about two million messages
_UIDS_PER_COMMAND = 200
_BYTES_PER_COMMAND = 1 << 20
_FETCH_OVERHEAD = 1 << 16

Item = TypeVar("Item")


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
            with ImapSession(account, ca_file) as session:
                session.log_in(passwords[account])
                yield from _read_folder(session, request, errors)
        except ImapError as error:
            errors.append(InputError(f"{request.folder}: {error}"))


def _read_folder(session: ImapSession, request: FolderRequest, errors: list[InputError]) -> Iterator[NamedMessage]:
    name = imap.quote(imap.encode_mailbox_name(request.folder.name))
    answers = [imap.parse_uid_validity(response) for response in session.command(f"EXAMINE {name}")]
    uid_validity = next((answer for answer in answers if answer is not None), None)
    known = request.known
    first = known.uid + 1 if known and known.uid_validity == uid_validity else 1
    if first > imap.MAX_UID:
        return
    search = f"UID SEARCH UID {first}:* UNDELETED"  # the last message is found even if its UID is lower
    found = session.command(search, max_response_bytes=_SEARCH_BYTES, max_bytes=2 * _SEARCH_BYTES)
    uids = sorted({uid for response in found for uid in imap.parse_search(response) if uid >= first})
    for some in _split(uids, _UIDS_PER_COMMAND):
        for message in _fetch_messages(session, _checked_sizes(session, some, request.folder, errors)):
            assert message.content is not None
            label = f"{request.folder}#{message.uid}"
            if not message.content.strip():
                errors.append(InputError(f"{label}: empty, that is no message"))
                continue
            position = FolderPosition(str(request.folder), uid_validity, message.uid) if uid_validity else None
            yield NamedMessage(label, message.content, position)


def _checked_sizes(
    session: ImapSession, uids: Sequence[int], folder: ImapFolder, errors: list[InputError]
) -> Mapping[int, int]:
    """Return the sizes of the messages that are not too large, by UID and in its order."""
    sizes = {
        message.uid: message.size
        for message in _fetch(session, uids, "RFC822.SIZE", max_bytes=1 << 20)
        if message.size is not None
    }
    errors += [
        InputError(f"{folder}#{uid}: larger than {MAX_MESSAGE_BYTES >> 20} MiB")
        for uid in uids
        if sizes.get(uid, 0) > MAX_MESSAGE_BYTES
    ]
    return {uid: sizes[uid] for uid in uids if sizes.get(uid, MAX_MESSAGE_BYTES + 1) <= MAX_MESSAGE_BYTES}


def _fetch_messages(session: ImapSession, sizes: Mapping[int, int]) -> Iterator[FetchedMessage]:
    """Yield messages with their contents; those that somebody has deleted meanwhile are missing."""
    group: list[int] = []
    group_bytes = 0
    for uid, size in [*sizes.items(), (0, _BYTES_PER_COMMAND)]:
        if group and group_bytes + size > _BYTES_PER_COMMAND:
            # Some servers count line ends as one byte, so that the size they tell is too small.
            limit = 2 * max(group_bytes, _BYTES_PER_COMMAND) + _FETCH_OVERHEAD
            yield from [m for m in _fetch(session, group, "BODY.PEEK[]", max_bytes=limit) if m.content is not None]
            group, group_bytes = [], 0
        group.append(uid)
        group_bytes += size


def _fetch(session: ImapSession, uids: Sequence[int], item: str, *, max_bytes: int) -> Sequence[FetchedMessage]:
    """Return what the server says of these messages, each once and in the order of their UIDs."""
    responses = session.command(
        f"UID FETCH {imap.uid_set(uids)} (UID {item})", max_response_bytes=max_bytes, max_bytes=max_bytes
    )
    messages: dict[int, FetchedMessage] = {}
    for message in filter(None, map(imap.parse_fetch, responses)):
        if message.uid in uids and (message.size is not None or message.content is not None):
            messages.setdefault(message.uid, message)
    return [messages[uid] for uid in uids if uid in messages]


def _split(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]

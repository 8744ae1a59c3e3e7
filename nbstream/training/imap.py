"""Mail on an IMAP server: the mailboxes of all accounts, a ``MailSource``, and whole folders.

Rules: nothing changes there, neither flags nor messages (EXAMINE, BODY.PEEK). Each command has a limit in time
and in bytes. Folders of other users and shared ones are left out, since their owners have not asked for it. A
message is found by the UIDVALIDITY of its folder and its UID: where the folder was made anew, it is left out. All
of it blocks, and one connection is open at a time.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from itertools import groupby
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.errors import InputError, NbstreamError
from nbstream.server.imap import (
    MAX_MESSAGE_BYTES,
    UIDS_PER_COMMAND,
    ImapError,
    ImapRefused,
    LimitedClient,
    logged_in,
    read_contents,
    read_sizes,
)
from nbstream.training.folder_roles import decode_folder_name, folder_role
from nbstream.training.messages import (
    EMPTY_MESSAGE,
    HEADER_FIELDS,
    MAX_FOLDERS,
    MAX_MESSAGES,
    TOO_MANY_MESSAGES,
    Account,
    Folder,
    MailboxMessage,
    MessageFlags,
    MessageHeader,
    SkippedMail,
    keyword_flags,
    needs_header,
    read_header,
    reading_order,
)
from nbstream.training.template import account_of

if TYPE_CHECKING:
    from nbstream.server.imap import ImapAccount
    from nbstream.training.messages import MessagePlace, Skip
    from nbstream.training.template import ImapFolder

_MAX_FAILURES = 10  # accounts in a row
_MAX_FAILURES_OF_ONE_PASSWORD = 3  # it is the wrong one, and servers shut out who tries on
_LIST_BYTES = 8 << 20  # about 30,000 folders; IMAPClient takes 100 MB for them
_HEADER_BYTES = 16 << 10
_FETCH_TEXT_BYTES = 2 << 20  # 200 messages with 10 KB of keywords each
_LOCATOR = struct.Struct(">II")  # UIDVALIDITY and UID
_SENDABLE_NAME = re.compile(rb"[ -~]+")  # a line end in it would end the command
_DURATION = re.compile(r" \([\d.]+ \+ .* secs\)\.$")  # of Dovecot; each would be a reason of its own
_NO_FOLDER = frozenset({"\\noselect", "\\nonexistent"})
_FLAGS = {
    b"\\seen": MessageFlags.SEEN,
    b"\\answered": MessageFlags.ANSWERED,
    b"\\flagged": MessageFlags.FLAGGED,
    b"\\deleted": MessageFlags.DELETED,
    b"\\draft": MessageFlags.DRAFT,
}

_UNKNOWN_USER = "has no password in the file"
_NOT_TRIED = "is not tried, after several accounts in a row that cannot be opened"
_NO_NAME = "has a name that IMAP does not know"
_TOO_MANY_FOLDERS = f"has more than {MAX_FOLDERS:,} folders: the rest is left out"
_MADE_ANEW = "the folder was made anew while the mailboxes were read"
_GONE = "has gone while the mailboxes were read"


class ImapMailboxes:
    """The accounts of ``users`` at the server of a template; ``passwords`` has that of each.

    ``ca_file`` has the certificates that are trusted, None stands for the system's. ``own_field`` is the field
    that this filter writes its verdict into.
    """

    def __init__(
        self,
        template: ImapAccount,
        users: Sequence[str],
        passwords: Mapping[str, str],
        ca_file: Path | None,
        own_field: str | None,
    ) -> None:
        self._template = template
        self._users = users
        self._passwords = passwords
        self._ca_file = ca_file
        self._fields = (*HEADER_FIELDS, *filter(None, (own_field,)))
        self._own_field = own_field
        self._failures = 0
        is_one = len(set(passwords.values())) == 1
        self._max_failures = _MAX_FAILURES_OF_ONE_PASSWORD if is_one else _MAX_FAILURES

    def accounts(self, skip: Skip) -> Iterator[Account]:
        """Yield the accounts; whether they can be opened is seen when they are."""
        for user in self._users:
            if user in self._passwords:
                yield Account(user, str(account_of(self._template, user)))
            else:
                skip(SkippedMail(user, _UNKNOWN_USER))

    def messages(self, account: Account, skip: Skip) -> Iterator[MailboxMessage]:
        """Yield the messages of an account; see ``MailSource``."""
        try:
            with self._logged_in(account.user) as client:
                for folder in sorted(_list_folders(client, account, skip), key=reading_order):
                    try:
                        yield from self._messages_of(client, folder, f"{account.user}: {folder.name}", skip)
                    except ImapRefused as error:
                        skip(_refused(f"{account.user}: {folder.name}", error))
        except ImapError as error:
            skip(SkippedMail(account.location, str(error)))

    def read(self, places: Sequence[MessagePlace], skip: Skip) -> Iterator[tuple[MessagePlace, bytes]]:
        """Yield the messages at these places, account by account, of each in steps of 200; see ``MailSource``."""
        for user, group in groupby(sorted(places, key=_user_of), key=_user_of):
            of_user = list(group)
            try:
                with self._logged_in(user) as client:
                    for start in range(0, len(of_user), UIDS_PER_COMMAND):
                        yield from _read_some(client, of_user[start : start + UIDS_PER_COMMAND], skip)
            except ImapError as error:
                skip(SkippedMail(of_user[0].account.location, str(error)))

    @contextmanager
    def _logged_in(self, user: str) -> Iterator[LimitedClient]:
        if self._failures == self._max_failures:
            raise ImapError(_NOT_TRIED)
        self._failures += 1
        with logged_in(account_of(self._template, user), self._passwords[user], self._ca_file) as client:
            self._failures = 0
            client.folder_encode = False  # one name that is no modified UTF-7 would hide all others
            client.normalise_times = False
            yield client

    def _messages_of(
        self, client: LimitedClient, folder: Folder, place: str, skip: Skip
    ) -> Iterator[MailboxMessage]:
        uid_validity, count = _examine(client, folder)
        if count > MAX_MESSAGES:
            skip(SkippedMail(place, TOO_MANY_MESSAGES))
        if not count:
            return
        with client.command("UID SEARCH"):
            found = client.search(f"{max(1, count - MAX_MESSAGES + 1)}:{count}")
            uids = sorted({uid for uid in found if 0 < uid < 1 << 32})[-MAX_MESSAGES:]
        for start in range(0, len(uids), UIDS_PER_COMMAND):
            yield from self._some_messages(client, folder, uid_validity, uids[start : start + UIDS_PER_COMMAND])

    def _some_messages(
        self, client: LimitedClient, folder: Folder, uid_validity: int, uids: Sequence[int]
    ) -> Iterator[MailboxMessage]:
        with client.command("UID FETCH", text_bytes=_FETCH_TEXT_BYTES):
            answer = client.fetch(uids, ["FLAGS", "RFC822.SIZE", "INTERNALDATE"])
            flags = {uid: _flags(answer[uid].get(b"FLAGS", ())) for uid in uids if uid in answer}
        with_header = [uid for uid in flags if needs_header(folder.role, flags[uid])]
        headers = self._headers(client, with_header)
        for uid, known in flags.items():
            size, date = answer[uid].get(b"RFC822.SIZE"), answer[uid].get(b"INTERNALDATE")
            if isinstance(size, int) and isinstance(date, datetime):
                header = headers.get(uid, MessageHeader())
                arrived = header.received or int(date.timestamp())
                yield MailboxMessage(folder, _LOCATOR.pack(uid_validity, uid), known, arrived, size, header)

    def _headers(self, client: LimitedClient, uids: Sequence[int]) -> Mapping[int, MessageHeader]:
        if not uids:
            return {}
        part = f"BODY.PEEK[HEADER.FIELDS ({' '.join(self._fields)})]<0.{_HEADER_BYTES}>"
        with client.command("UID FETCH", literal_bytes=len(uids) * _HEADER_BYTES):
            answer = client.fetch(uids, [part])
        return {
            uid: read_header(raw, self._own_field)
            for uid, items in answer.items()
            for name, raw in items.items()
            if name.startswith(b"BODY[HEADER") and isinstance(raw, bytes)
        }


def _refused(place: str, error: ImapRefused) -> SkippedMail:
    return SkippedMail(place, _DURATION.sub("", str(error)))


def _user_of(place: MessagePlace) -> str:
    return place.account.user


def _list_folders(client: LimitedClient, account: Account, skip: Skip) -> Sequence[Folder]:
    of_others: tuple[bytes, ...] = ()
    with client.command("NAMESPACE"):
        if client.has_capability("NAMESPACE"):
            spaces = client.namespace()
            of_others = tuple(prefix for prefix, _ in (*(spaces.other or ()), *(spaces.shared or ())) if prefix)
    folders = dict[str, Folder]()
    with client.command("LIST", text_bytes=_LIST_BYTES, literal_bytes=_LIST_BYTES):
        for attributes, delimiter, name in client.list_folders():
            raw = name.encode() if isinstance(name, str) else name  # a number comes as text
            named = [attribute.decode("latin-1").lower() for attribute in attributes]
            if raw.startswith(of_others) or not _NO_FOLDER.isdisjoint(named):
                continue
            shown = "/".join(map(decode_folder_name, raw.split(delimiter) if delimiter else [raw]))
            if not _SENDABLE_NAME.fullmatch(raw):
                skip(SkippedMail(f"{account.user}: {shown}", _NO_NAME))
            elif len(folders) < MAX_FOLDERS:
                folders[raw.decode()] = Folder(shown, folder_role(shown, named), raw.decode())
            else:
                skip(SkippedMail(account.location, _TOO_MANY_FOLDERS))
                break
    return list(folders.values())


def _examine(client: LimitedClient, folder: Folder) -> tuple[int, int]:
    """Select a folder, and return its UIDVALIDITY and how many messages it has."""
    with client.command("EXAMINE"):
        state = client.select_folder(folder.place, readonly=True)
    uid_validity, count = state.get(b"UIDVALIDITY"), state.get(b"EXISTS")
    if not isinstance(uid_validity, int) or not isinstance(count, int) or not 0 <= uid_validity < 1 << 32:
        raise ImapError("the server does not say UIDVALIDITY and EXISTS")
    return uid_validity, count


def _flags(names: Collection[bytes]) -> MessageFlags:
    keywords = keyword_flags(name.decode("latin-1") for name in names)
    return reduce(or_, (_FLAGS.get(name.lower(), keywords) for name in names), keywords)


def _read_some(
    client: LimitedClient, places: Sequence[MessagePlace], skip: Skip
) -> Iterator[tuple[MessagePlace, bytes]]:
    by_folder: defaultdict[Folder, list[MessagePlace]] = defaultdict(list)
    for place in places:
        by_folder[place.folder].append(place)
    for folder, of_folder in by_folder.items():
        try:
            yield from _read_folder(client, folder, of_folder, skip)
        except ImapRefused as error:
            skip(_refused(str(of_folder[0]), error))


def _read_folder(
    client: LimitedClient, folder: Folder, places: Sequence[MessagePlace], skip: Skip
) -> Iterator[tuple[MessagePlace, bytes]]:
    uid_validity, _ = _examine(client, folder)
    found = [(_LOCATOR.unpack(place.locator), place) for place in places]
    left = {uid: place for (known, uid), place in found if known == uid_validity}
    if not left:
        skip(SkippedMail(str(places[0]), _MADE_ANEW))
        return
    sizes = {uid: size for uid, size in read_sizes(client, list(left)).items() if size <= MAX_MESSAGE_BYTES}
    for uid, raw in read_contents(client, sizes):
        if (place := left.pop(uid, None)) and raw.strip():
            yield place, raw
        elif place:
            skip(SkippedMail(str(place), EMPTY_MESSAGE))
    for place in left.values():
        skip(SkippedMail(str(place), _GONE))


# Whole folders, by their URLs: messages that are marked as deleted are left out.

_SEARCH_BYTES = 4 << 20  # about half a million messages; for the worst such answer IMAPClient takes 400 MB


def read_folders(
    folders: Iterable[ImapFolder],
    passwords: Mapping[ImapAccount, str],
    ca_file: Path | None,
    errors: list[NbstreamError],
) -> Iterator[tuple[str, bytes]]:
    """Yield the messages of all folders with their names; what cannot be read is added to ``errors``.

    ``ca_file`` has the certificates that are trusted; None stands for those of the system.
    """
    for folder in folders:
        try:
            with logged_in(folder.account, passwords[folder.account], ca_file) as client:
                yield from _read_whole(client, folder, errors)
        except ImapError as error:
            errors.append(InputError(f"{folder}: {error}"))


def _read_whole(
    client: LimitedClient, folder: ImapFolder, errors: list[NbstreamError]
) -> Iterator[tuple[str, bytes]]:
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
            yield label, raw

"""Messages of an IMAP folder that is selected: their sizes first, then their contents, some with each command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nbstream.imap.connection import LimitedClient

MAX_MESSAGE_BYTES = 50 << 20
"""A larger message is left out and reported, as the listeners refuse it."""

UIDS_PER_COMMAND = 200

_BYTES_PER_COMMAND = 1 << 20
_FETCH_OVERHEAD = 1 << 16


def read_sizes(client: LimitedClient, uids: Sequence[int]) -> Mapping[int, int]:
    """Return the sizes of messages in bytes, by UID, but of those that have gone. Raises ``ImapError``."""
    with client.command("UID FETCH"):
        answer = client.fetch(uids, ["RFC822.SIZE"])
    sizes = {uid: items.get(b"RFC822.SIZE") for uid, items in answer.items()}
    return {uid: size for uid, size in sizes.items() if isinstance(size, int)}


def read_contents(client: LimitedClient, sizes: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield UIDs and messages, some small ones with each command, without those that have gone meanwhile.

    ``sizes`` are what ``read_sizes`` returned, without those that are too large. Raises ``ImapError``.
    """
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

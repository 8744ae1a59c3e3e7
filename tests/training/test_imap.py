"""The accounts of an IMAP server that does what it wants: what is read, what is left out, and that it ends."""

from __future__ import annotations

import tracemalloc

import pytest

from nbstream.server.imap import ImapAccount
from nbstream.training import imap
from nbstream.training.imap import ImapMailboxes
from nbstream.training.messages import (
    Account,
    Folder,
    FolderRole,
    MailboxMessage,
    MessageFlags,
    MessagePlace,
    SkippedMail,
)
from tests.harness.scripted_imap_server import Server

DONE = b"%b OK done\r\n"
LOGIN = (b"* OK hello\r\n", b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n" + DONE, DONE)
CAPABILITY = b"* CAPABILITY IMAP4rev1\r\n" + DONE
LIST = b'* LIST (\\HasNoChildren) "." Junk\r\n' + DONE
EXAMINED = b"* 2 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n" + DONE
FOUND = b"* SEARCH 3 5\r\n" + DONE
FLAGS = b"".join(
    b'* %d FETCH (UID %d FLAGS (%s) RFC822.SIZE 20 INTERNALDATE "28-Nov-2026 05:00:00 +0000")\r\n' % one
    for one in ((1, 3, rb"\Seen $NotJunk Work"), (2, 5, rb"\ANSWERED \Flagged junk"))
)
HEADER = b"From: Ann <ann@example.org>\r\nMessage-ID: <1@example.org>\r\n\r\n"
HEADERS = b"".join(
    b"* %d FETCH (UID %d BODY[HEADER.FIELDS (FROM X-NBSTREAM)]<0> {%d}\r\n%b)\r\n"
    % (seq, uid, len(HEADER), HEADER)
    for seq, uid in ((1, 3), (2, 5))
)
WHOLE = (*LOGIN, CAPABILITY, LIST, EXAMINED, FOUND, FLAGS + DONE, HEADERS + DONE)

RAW = b"Subject: x\r\n\r\ntext\r\n"
SIZES = b"* 1 FETCH (UID 3 RFC822.SIZE 20)\r\n* 2 FETCH (UID 5 RFC822.SIZE 20)\r\n" + DONE
CONTENTS = b"".join(
    b"* %d FETCH (UID %d BODY[] {20}\r\n%b)\r\n" % (seq, uid, RAW) for seq, uid in ((1, 3), (2, 5))
)
CHOSEN = (*LOGIN, EXAMINED, SIZES, CONTENTS + DONE)

JUNK = Folder("Junk", FolderRole.JUNK, "Junk")


def mailboxes(server: Server) -> ImapMailboxes:
    template = ImapAccount("127.0.0.1", server.account.port, False, "%u")
    return ImapMailboxes(template, ["ann"], {"ann": "secret"}, None, "X-Nbstream")


def messages(*answers: bytes) -> tuple[list[MailboxMessage], list[str], Server]:
    """The messages of ann at a server with these answers, what is left out, and the server."""
    server = Server(answers)
    skipped: list[SkippedMail] = []
    with server.running():
        source = mailboxes(server)
        found = [
            one for account in source.accounts(skipped.append) for one in source.messages(account, skipped.append)
        ]
    return found, [f"{one.place.replace(str(server.account), 'URL')}: {one.why}" for one in skipped], server


def contents(*answers: bytes, uid_validity: int = 7) -> tuple[list[tuple[int, bytes]], list[str], Server]:
    """What is read of two messages in Junk."""
    server = Server(answers)
    account = Account("ann", str(server.account))
    places = [MessagePlace(account, JUNK, imap._LOCATOR.pack(uid_validity, uid)) for uid in (5, 3)]
    skipped: list[SkippedMail] = []
    with server.running():
        read = [(8 + places.index(place), raw) for place, raw in mailboxes(server).read(places, skipped.append)]
    return read, [f"{one.place.replace(str(server.account), 'URL')}: {one.why}" for one in skipped], server


def words(server: Server) -> list[bytes]:
    return [line.partition(b" ")[2] for line in server.lines]


def test_letters_are_read_with_flags_and_header_and_nothing_changes() -> None:
    found, skipped, server = messages(*WHOLE)

    assert skipped == []
    assert [(one.folder, one.flags, one.size, one.arrived) for one in found] == [
        (JUNK, MessageFlags.SEEN | MessageFlags.NOT_JUNK, 20, 1795842000),
        (JUNK, MessageFlags.ANSWERED | MessageFlags.FLAGGED | MessageFlags.JUNK, 20, 1795842000),
    ]
    assert [one.header.sender for one in found] == ["ann@example.org"] * 2
    fields = b"FROM DATE SUBJECT MESSAGE-ID IN-REPLY-TO RECEIVED X-NBSTREAM"
    assert words(server)[3:] == [
        b"CAPABILITY\r\n",
        b'LIST "" "*"\r\n',
        b'EXAMINE "Junk"\r\n',
        b"UID SEARCH 1:2\r\n",
        b"UID FETCH 3,5 (FLAGS RFC822.SIZE INTERNALDATE)\r\n",
        b"UID FETCH 3,5 (BODY.PEEK[HEADER.FIELDS (" + fields + b")]<0.16384>)\r\n",
    ]


def test_of_an_unread_inbox_no_header_is_read() -> None:
    inbox = b'* LIST () "." INBOX\r\n' + DONE
    unread = FLAGS.replace(rb"\Seen ", b"")
    found, skipped, server = messages(*LOGIN, CAPABILITY, inbox, EXAMINED, FOUND, unread + DONE)

    assert ([one.header.sender for one in found], skipped) == (["", ""], [])
    assert words(server)[-1] == b"UID FETCH 3,5 (FLAGS RFC822.SIZE INTERNALDATE)\r\n"


def test_sent_and_junk_come_first_and_folders_of_others_do_not_come() -> None:
    capability = b"* CAPABILITY IMAP4rev1 NAMESPACE\r\n" + DONE
    spaces = b'* NAMESPACE (("" "/")) (("user/" "/")) (("shared/" "/"))\r\n' + DONE
    names = (b"Archive", b"user/bob/Junk", b"shared/team", b'"Gesendet"', b"&V4NXPpCuTvY-", b"2026")
    listed = b"".join(b'* LIST () "/" %b\r\n' % name for name in names)
    listed += b'* LIST (\\Noselect) "/" a\r\n* LIST (\\NonExistent) "/" b\r\n' + DONE
    empty = b"* 0 EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n" + DONE
    found, skipped, server = messages(*LOGIN, capability, spaces, listed, empty, empty, empty, empty)

    assert (found, skipped) == ([], [])
    assert [line.split()[1] for line in words(server) if line.startswith(b"EXAMINE")] == [
        b'"Gesendet"',
        b'"&V4NXPpCuTvY-"',
        b'"2026"',
        b'"Archive"',
    ]


@pytest.mark.parametrize("name", [b"{5}\r\na\r\nb!", b'"\xc3\xa4"', b'"a\tb"', b'""', b"{3}\r\na\0b"])
def test_a_name_that_would_be_another_command_is_left_out(name: bytes) -> None:
    listed = b'* LIST () "/" %b\r\n* LIST () "/" Junk\r\n' % name + DONE
    found, skipped, _ = messages(*LOGIN, CAPABILITY, listed, *WHOLE[5:])

    assert len(found) == 2
    assert len(skipped) == 1
    assert skipped[0].endswith(": has a name that IMAP does not know")


def test_a_folder_that_cannot_be_opened_is_left_out_and_the_others_are_read() -> None:
    listed = b'* LIST () "/" Sent\r\n* LIST () "/" Junk\r\n' + DONE
    found, skipped, _ = messages(*LOGIN, CAPABILITY, listed, b"%b NO it has gone\r\n", *WHOLE[5:])

    assert len(found) == 2
    assert skipped == ["ann: Sent: the server refuses EXAMINE: NO it has gone"]


def test_of_very_many_folders_and_letters_some_are_read_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imap, "MAX_FOLDERS", 1)
    monkeypatch.setattr(imap, "MAX_MESSAGES", 1)
    listed = b"".join(b'* LIST () "/" Junk%d\r\n' % number for number in range(3)) + DONE
    found, skipped, server = messages(*LOGIN, CAPABILITY, listed, EXAMINED, FOUND, FLAGS + DONE, HEADERS + DONE)

    assert [imap._LOCATOR.unpack(one.locator) for one in found] == [(7, 5)]
    assert [line.rpartition(": ")[0] for line in skipped] == [
        "URL: has more than 2,000 folders",
        "ann: Junk0: has more than 20,000 messages",
    ]
    assert b"UID SEARCH 2:2\r\n" in words(server)


def test_a_letter_that_has_gone_meanwhile_or_is_told_too_little_of_is_left_out() -> None:
    first, second = FLAGS.split(b"* 2")
    for answer in (first, first + b"* 2 FETCH (UID 5 FLAGS ())\r\n", first + b"* 9 FETCH (UID 9 FLAGS ())\r\n"):
        found, skipped, _ = messages(*WHOLE[:7], answer + DONE, HEADERS + DONE)
        assert ([imap._LOCATOR.unpack(one.locator) for one in found], skipped) == ([(7, 3)], [])
    assert second


def test_a_server_that_leaves_at_any_byte_is_said_and_what_came_is_whole() -> None:
    for index, answer in enumerate(WHOLE):
        for end in range(0, len(answer) - 2, 41):
            found, skipped, _ = messages(*WHOLE[:index], answer[:end])
            assert (found, skipped) == ([], ["URL: the server has closed the connection"])
    for index, answer in enumerate(CHOSEN):
        for end in range(0, len(answer) - 2, 41):
            read, skipped, _ = contents(*CHOSEN[:index], answer[:end])
            assert (read, skipped) == ([], ["URL: the server has closed the connection"])


@pytest.mark.parametrize(
    ("step", "answer", "times", "why"),
    [
        (4, b'* LIST () "/" "Junk"\r\n', 100_000, "the answer is larger than 8388608 bytes"),
        (4, b"* LIST (" + b"(" * 10_000 + b"\r\n" + DONE, 1, "this is not IMAP: "),
        (5, b"* 3 EXISTS\r\n" + DONE, 1, "the server does not say UIDVALIDITY and EXISTS"),
        (
            5,
            b"* 3 EXISTS\r\n* OK [UIDVALIDITY 99999999999] x\r\n" + DONE,
            1,
            "the server does not say UIDVALIDITY",
        ),
        (6, b"* SEARCH 1 ", 2_000_000, "the answer is larger than 1048576 bytes"),
        (7, b"* 1 FETCH (UID 3 FLAGS (" + b"x " * 2_000_000, 1, "the answer is larger than 2097152 bytes"),
        (
            8,
            b"* 1 FETCH (UID 3 BODY[HEADER.FIELDS (FROM)]<0> {99999}\r\n",
            1,
            "the answer is larger than 32768 bytes",
        ),
    ],
)
def test_what_a_hostile_server_sends_is_bounded(step: int, answer: bytes, times: int, why: str) -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found, skipped, _ = messages(*WHOLE[:step], answer * times)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()

    assert found == []
    assert len(skipped) == 1
    assert skipped[0].startswith(f"URL: {why}")
    assert peak < 100 << 20  # with the answer itself, which the server has in memory too


def test_a_user_without_a_password_is_left_out_before_anything_is_read() -> None:
    skipped: list[SkippedMail] = []
    template = ImapAccount("mail.example.org", 993, True, "%u")
    source = ImapMailboxes(template, ["zoe", "ann"], {"ann": "secret"}, None, "X-Nbstream")
    accounts = list(source.accounts(skipped.append))

    assert accounts == [Account("ann", "imaps://ann@mail.example.org")]
    assert list(map(str, skipped)) == ["zoe: has no password in the file"]


@pytest.mark.parametrize(("passwords", "tried"), [(["same"] * 3, 3), (["of ann", "of ben", "of cal"], 10)])
def test_after_accounts_in_a_row_that_cannot_be_opened_no_more_are_tried(passwords: list[str], tried: int) -> None:
    server = Server([])
    server._listening.close()
    template = ImapAccount("127.0.0.1", server.account.port, False, "%u")
    users = ["ann", "ben", "cal"]
    source = ImapMailboxes(template, users, dict(zip(users, passwords, strict=True)), None, "X-Nbstream")
    skipped: list[SkippedMail] = []
    for user in users * 4:
        assert list(source.messages(Account(user, ""), skipped.append)) == []

    assert [one.why for one in skipped] == ["Connection refused"] * tried + [
        "is not tried, after several accounts in a row that cannot be opened"
    ] * (12 - tried)


# The messages that were chosen


def test_the_letters_that_were_chosen_are_read() -> None:
    read, skipped, server = contents(*CHOSEN)

    assert (read, skipped) == ([(8, RAW), (9, RAW)], [])
    assert words(server)[3:] == [
        b'EXAMINE "Junk"\r\n',
        b"UID FETCH 5,3 (RFC822.SIZE)\r\n",
        b"UID FETCH 5,3 (BODY.PEEK[])\r\n",
    ]

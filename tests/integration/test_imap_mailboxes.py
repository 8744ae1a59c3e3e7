"""The mailboxes of all users of a real Dovecot, read with a master user or with the password of each."""

from __future__ import annotations

import imaplib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from nbstream.server.imap import ImapAccount
from nbstream.training.imap import ImapMailboxes
from nbstream.training.messages import FolderRole, MailboxMessage, MessageFlags, MessagePlace, SkippedMail
from nbstream.training.template import parse_template
from tests.harness.daemon import command
from tests.harness.handbook_pages import page
from tests.harness.imap_server import ImapServer
from tests.harness.postfix import open_folder
from tests.harness.programs import needs_root
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

USERS = {"ann": "secret", "bob@example.org": "of-bob"}
SHARED = """\
namespace shared {{
  type = public
  prefix = shared.
  separator = .
  location = maildir:{folder}/mail/shared
  subscriptions = no
}}
mail_plugins = $mail_plugins acl
plugin {{
  acl = vfile:{folder}/acl
}}
"""


class Mailboxes(ImapServer):
    """With a master user, as the guide configures one, two users and a folder that all share."""

    def __init__(self, folder: Path, program: Callable[[str], str]) -> None:
        super().__init__(folder, program)
        guide = page("guides/teach-old-mail.md").partition("auth_master_user_separator")
        master = (guide[1] + guide[2].partition("\n\n")[0]).replace("\n      ", "\n")
        master += "\nplugin {\n  acl_user = %u\n}\n"  # as the guide says for a server with the plugin acl
        pieces = folder / "etc/dovecot/conf.d"
        (pieces / "master.conf").write_text(master.replace("/etc/dovecot/master-users", f"{folder}/masters"))
        (pieces / "shared.conf").write_text(SHARED.format(folder=folder))
        (folder / "acl").write_text("shared* anyone lrwstipekxa\n")
        (folder / "masters").write_text("nbstream:{PLAIN}of-the-master\n")
        (folder / "users").write_text("".join(f"{user}:{{PLAIN}}{password}\n" for user, password in USERS.items()))

    def template(self, user: str) -> ImapAccount:
        template = parse_template(f"imaps://{user}@127.0.0.1:{self.tls_port}/")
        assert isinstance(template, ImapAccount)
        return template

    def login(self, user: str) -> imaplib.IMAP4:
        session = imaplib.IMAP4("127.0.0.1", self.port, 30)
        session.login(user, USERS[user])
        return session

    def append(self, user: str, folder: str, *names: str, flags: str = "") -> None:
        with self.login(user) as session:
            session.create(folder)
            for name in names:
                assert session.append(folder, flags, "", message(name))[0] == "OK"


def message(name: str) -> bytes:
    return f"From: {name}@example.com\r\nMessage-ID: <{name}@example.com>\r\n\r\n{name}\r\n".encode()


@pytest.fixture
def server(program: Callable[[str], str]) -> Iterator[Mailboxes]:
    program("dovecot")
    needs_root()
    with open_folder() as folder:
        server = Mailboxes(folder, program)
        with server.running():
            yield server


@dataclass
class Read:
    """What a source has: messages by user, and what it leaves out."""

    source: ImapMailboxes
    places: list[MessagePlace]
    messages: list[MailboxMessage]
    skipped: list[SkippedMail]

    def contents(self) -> Mapping[int, bytes]:
        read = self.source.read(self.places, self.skipped.append)
        return {self.places.index(place): raw for place, raw in read}


def read(server: Mailboxes, user: str = "%u*nbstream", passwords: Mapping[str, str] | None = None) -> Read:
    """All messages of ann, of bob and of zoe, whom the server does not know."""
    passwords = passwords or dict.fromkeys([*USERS, "zoe"], "of-the-master")
    users = [*USERS, "zoe"]
    source = ImapMailboxes(server.template(user), users, passwords, server.certificates.authority, "X-Nbstream")
    found = Read(source, [], [], [])
    for account in source.accounts(found.skipped.append):
        for message in source.messages(account, found.skipped.append):
            found.places.append(MessagePlace(account, message.folder, message.locator))
            found.messages.append(message)
    return found


def test_a_master_user_reads_the_folders_of_all_and_nothing_changes(server: Mailboxes) -> None:
    server.append("ann", "Junk", "prize")
    server.append("ann", '"Courrier ind&AOk-sirable"', "pilule")
    server.append("ann", "Moon.Rocket", "rocket", flags=r"(\Seen \Answered $NotJunk)")
    server.append("ann", "shared.team", "team")
    server.append("bob@example.org", "Gesendet", "answer")
    before = flags(server, "Junk")

    found = read(server)

    assert [(one.folder.name, one.folder.role, one.header.sender) for one in found.messages] == [
        ("Courrier indésirable", FolderRole.JUNK, "pilule@example.com"),
        ("Junk", FolderRole.JUNK, "prize@example.com"),
        ("Moon/Rocket", FolderRole.SORTED, "rocket@example.com"),
        ("Gesendet", FolderRole.SENT, "answer@example.com"),
    ]
    assert found.messages[2].flags == MessageFlags.SEEN | MessageFlags.ANSWERED | MessageFlags.NOT_JUNK
    names = ("pilule", "prize", "rocket", "answer")
    assert found.contents() == {number: message(name) for number, name in enumerate(names)}
    assert [one.why for one in found.skipped] == [
        "the server refuses AUTHENTICATE: NO [AUTHORIZATIONFAILED] Authorization failed"
    ]
    assert flags(server, "Junk") == before
    assert b"\\Seen" not in before


def flags(server: Mailboxes, folder: str) -> bytes:
    with server.login("ann") as session:
        session.select(folder, readonly=True)
        return repr(session.fetch("1:*", "(FLAGS UID)")).encode()


def test_a_site_is_taught_over_imap_by_one_command(
    server: Mailboxes, shared_redis: RedisServer, tmp_path: Path
) -> None:
    with server.login("ann") as session:
        for label, raw in samples(150):
            folder = "Junk" if label == "spam" else "Archive"
            assert session.append(folder, "", "", raw.replace(b"\n", b"\r\n"))[0] == "OK"
    config, users, password = tmp_path / "nb.yaml", tmp_path / "users.txt", tmp_path / "master.txt"
    config.write_text(
        f"redis: {{url: '{shared_redis.url}'}}\nmodel: {{name: by-imap}}\nstate_dir: {tmp_path / 'state'}\n"
    )
    users.write_text("# agreed\nann\nzoe\n")
    password.write_text("of-the-master\n")
    url = f"imaps://%u*nbstream@127.0.0.1:{server.tls_port}/"
    words: list[str | Path] = [
        "learn",
        "-c",
        config,
        "--mailboxes",
        url,
        "--users",
        users,
        "--password-file",
        password,
    ]
    words += ["--ca-file", server.certificates.authority]

    plan = command(*words, "--plan")
    done = command(*words, "--yes")
    again = command(*words, "--yes")

    assert "accounts: 2, messages: 150" in plan.stdout
    assert "zoe%2Anbstream" in plan.stdout
    assert " learned as ham, " in done.stdout
    assert "each checked before it was learned: ham lost 0 of" in done.stdout
    assert "learned before: 150" in again.stdout
    for shown in (plan, done, again):
        assert (shown.returncode, "of-the-master" in shown.stdout + shown.stderr) == (0, False)
    (tmp_path / "master.txt").write_text("bob@example.org:of-bob\nfay:x\n")
    refused = command(*words, "--plan")
    assert refused.returncode == 66
    assert "has no line USER:PASSWORD of a user in the list" in refused.stderr
    assert "of-bob" not in refused.stderr

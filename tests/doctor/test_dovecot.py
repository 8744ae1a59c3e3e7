"""Dovecot: the real ``doveconf``, on the configuration of the handbook and on what people make of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.doctor import dovecot as doctor
from nbstream.doctor.dovecot import examine_dovecot, judge, parse_dovecot
from nbstream.doctor.examination import MailServerFiles
from nbstream.findings import Finding, FindingKind
from tests.deploy.dovecot import Dovecot
from tests.doctor.sites import kind_names, make_site, the, wrong


class ExaminedDovecot:
    """A Dovecot with the pieces of ``deploy/dovecot``, and files that come after them."""

    def __init__(self, folder: Path, program: Callable[[str], str]) -> None:
        self._folder = folder
        self.dovecot = Dovecot(folder, program, 10025)
        self._file = folder / "dovecot.conf"
        # Mailboxes of the special use \Junk that no rule is for are of other tests.
        self._file.write_text(self._file.read_text().replace("special_use = \\Junk", "special_use = \\Archive"))

        self.socket_folder = folder / "nbstream"
        self.socket_folder.mkdir()

    def add(self, text: str) -> None:
        """Add settings behind all others."""
        with self._file.open("a") as file:
            file.write(text)

    async def findings(self, settings: str = "") -> list[Finding]:
        """What the examination by the real program finds; ``settings`` are those of nbstream."""
        site = make_site(self._folder, settings, mail_servers=MailServerFiles(dovecot=self._file))
        return list(await examine_dovecot(site))


@pytest.fixture
def dovecot(program: Callable[[str], str], tmp_path: Path) -> ExaminedDovecot:
    program("doveconf")
    return ExaminedDovecot(tmp_path, program)


async def test_the_configuration_of_the_handbook_is_fine(dovecot: ExaminedDovecot) -> None:
    found = await dovecot.findings()

    assert wrong(found) == []
    assert "Junk" in the(found, doctor.CONNECTED).what


async def test_a_folder_of_sockets_that_is_not_there(dovecot: ExaminedDovecot) -> None:
    dovecot.socket_folder.rmdir()
    found = await dovecot.findings()
    assert str(dovecot.socket_folder) in the(found, doctor.PROGRAM_INSTEAD).what
    assert wrong(found) == []

    dovecot.add("plugin {\n  sieve_pipe_bin_dir =\n}\n")
    assert str(dovecot.socket_folder) in the(await dovecot.findings(), doctor.NO_SOCKET_FOLDER).what


async def test_a_socket_that_no_script_uses(dovecot: ExaminedDovecot) -> None:
    def listen(folder: Path) -> str:
        return f"listeners: {{dovecot: {{listen: 'unix:{folder / 'nbstream-report'}'}}}}\n"

    assert wrong(await dovecot.findings(listen(dovecot.socket_folder))) == []

    elsewhere = listen(dovecot.socket_folder.parent)
    finding = the(await dovecot.findings(elsewhere), doctor.OTHER_SOCKET_FOLDER)
    assert f"is {dovecot.socket_folder}:" in finding.what

    dovecot.add("plugin {\n  sieve_pipe_socket_dir =\n}\n")
    assert "is not set:" in the(await dovecot.findings(elsewhere), doctor.OTHER_SOCKET_FOLDER).what


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("protocol imap {\n  mail_plugins = quota\n}\n", doctor.NO_IMAP_SIEVE),
        ("plugin {\n  sieve_plugins = sieve_extprograms\n}\n", doctor.NO_SIEVE_PLUGIN),
        ("plugin {\n  sieve_global_extensions = +special-use\n}\n", doctor.NO_PIPE),
        ("plugin {\n  imapsieve_mailbox1_name = Spam\n}\n", doctor.NO_JUNK_RULE),
        ("plugin {\n  imapsieve_mailbox2_from = Spam\n}\n", doctor.NO_HAM_RULE),
        ("plugin {\n  imapsieve_mailbox1_before = file:/nowhere/spam.sieve\n}\n", doctor.NO_SCRIPT),
        (
            "namespace inbox {\n  mailbox Pourriel {\n    special_use = \\Junk\n  }\n}\n",
            doctor.NO_JUNK_RULE,
        ),
    ],
)
async def test_what_a_later_file_overrides(dovecot: ExaminedDovecot, text: str, kind: FindingKind) -> None:
    dovecot.add(text)

    the(await dovecot.findings(), kind)


def test_a_dovecot_without_rules_is_noted(program: Callable[[str], str], tmp_path: Path) -> None:
    file = tmp_path / "dovecot.conf"
    file.write_text("protocols = imap\nssl = no\n")
    output = subprocess.run([program("doveconf"), "-n", "-c", file], check=True, capture_output=True, text=True)

    assert kind_names(judge(parse_dovecot(output.stdout))) == {"dovecot.NOT_CONNECTED"}


async def test_a_configuration_that_cannot_be_read_is_noted(program: Callable[[str], str], tmp_path: Path) -> None:
    program("doveconf")

    found = await examine_dovecot(make_site(tmp_path, mail_servers=MailServerFiles(dovecot=tmp_path / "none")))

    the(found, doctor.NOT_FOUND)


def test_a_newer_dovecot_has_other_settings() -> None:
    text = "# 2.4.1-4 (7d8c0e5759): /etc/dovecot/dovecot.conf\nprotocols = imap\n"

    the(judge(parse_dovecot(text)), doctor.NEWER)


def test_sections_are_read_with_their_names() -> None:
    dovecot = parse_dovecot(
        """\
# 2.3.19.1 (9b53102964): /etc/dovecot/dovecot.conf
mail_plugins = quota
namespace inbox {
  location =
  mailbox "Junk mail" {
    special_use = \\Junk
  }
}
plugin {
  sieve_plugins = sieve_imapsieve
}
protocol imap {
  mail_plugins = " quota imap_sieve"
}
"""
    )

    assert dovecot.version == (2, 3)
    assert [section.name for section in dovecot.root.find("mailbox")] == ["Junk mail"]
    assert dovecot.plugin == {"sieve_plugins": "sieve_imapsieve"}
    assert dovecot.imap_plugins == "quota imap_sieve"


@given(st.text(alphabet=st.sampled_from(["{", "}", "\n", " ", "=", "a", "#", '"', "2", "."])))
def test_any_text_is_read(text: str) -> None:
    list(judge(parse_dovecot(text)))

"""Exim and nbstream with the pieces of its guide for mail after the queue; run by ``plain_root.run_alone``."""

from __future__ import annotations

import re
import smtplib
import sys
from contextlib import suppress
from pathlib import Path

from tests.deploy.plain_root import RootedServer, entering, learned, make_root, run, serve
from tests.harness.daemon import wait_until
from tests.harness.handbook_pages import page
from tests.harness.postfix import DEPLOY

# A configuration with one domain, whose users are those of the machine and have a Maildir.
CONFIGURATION = """\
primary_hostname = mx.example.org
domainlist local_domains = example.org
hostlist relay_from_hosts = 127.0.0.1
{main}
acl_smtp_rcpt = recipient
keep_environment =
log_file_path = /tmp/exim-%slog

begin acl
recipient:
{recipient}
  accept domains = +local_domains
  accept hosts = +relay_from_hosts
  deny message = relay not permitted

begin routers
{routers}
users:
  driver = accept
  check_local_user
  transport = maildir

begin transports
{transports}
maildir:
  driver = appendfile
  maildir_format
  directory = $home/Maildir
"""
INSTALLATION = """\
groupadd Debian-exim
useradd --system --gid Debian-exim --home-dir /var/spool/exim4 --shell /usr/sbin/nologin Debian-exim
useradd --create-home ann
install --directory --owner Debian-exim --group Debian-exim --mode 0750 /var/spool/exim4 /etc/exim4
chmod u+s /usr/sbin/exim4
chown -R root:root /etc/exim4
"""
STRANGER = ("127.0.0.2", 0)  # a client whose address is none of relay_from_hosts


def piece(where: str) -> str:
    """Return what the guide adds to a part of the configuration."""
    found = re.search(rf"{re.escape(where)}:\n\n((?: {{4}}.*\n|\n(?= {{4}}))+)", page("guides/mail-servers.md"))
    assert found, where
    return re.sub(r"(?m)^ {4}", "", found[1])


def delivered(root: Path, subject: str) -> list[str]:
    """Return ann's messages with this subject."""
    texts = [path.read_text() for path in root.glob("home/ann/Maildir/new/*")]
    return [text for text in texts if f"\nSubject: {subject}\n" in text]


def main(folder: Path, packages: Path) -> None:
    """Start both, and send mail from outside and to a feedback address."""
    run("mount", "-t", "tmpfs", "tmpfs", folder)
    run("ip", "link", "set", "lo", "up")
    root = make_root(folder / "site", packages)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n127.0.1.1 mx.example.org\n")
    run(*entering(root), "sh", "-euc", INSTALLATION)
    configuration = CONFIGURATION.format(
        main=piece("In the main part"),
        recipient=piece("At the beginning of the ACL of `acl_smtp_rcpt`"),
        routers=piece("At the beginning of the routers"),
        transports=piece("Among the transports"),
    )
    (root / "etc" / "exim4" / "exim4.conf").write_text(configuration)
    filtering = serve(root, DEPLOY / "exim" / "nbstream.yaml")
    server = RootedServer(root, "exim", "exim4", "-bdf", "-q1m")
    try:
        use(root, server)
    except BaseException:
        logs = "".join(path.read_text() for path in root.glob("tmp/exim-*log"))
        print(server.log, logs, filtering.log, sep="\n---\n", file=sys.stderr)
        raise


def use(root: Path, server: RootedServer) -> None:
    """Send mail from outside and from a user."""

    def listens() -> bool:
        server.assert_runs()
        with suppress(OSError), smtplib.SMTP("127.0.0.1", 25, timeout=5):
            return True
        return False

    wait_until(listens)
    with smtplib.SMTP("127.0.0.1", 25, "client.example", 20, STRANGER) as stranger:
        stranger.ehlo()
        for sender, recipient in (
            ("a@elsewhere.example", "spam@nbstream.invalid"),
            ("ham@nbstream.invalid", "ann@example.org"),
        ):
            stranger.mail(sender)
            assert stranger.rcpt(recipient)[0] == 550, recipient
            stranger.rset()
        text = "Subject: offer\r\nX-Spam-Flag: YES\r\n\r\nBuy now.\r\n"
        stranger.sendmail("a@elsewhere.example", "ann@example.org", text)
    wait_until(lambda: delivered(root, "offer"))
    (message,) = delivered(root, "offer")
    assert "\nX-Nbstream: " in message, message
    assert "X-Spam-Flag" not in message, message

    with smtplib.SMTP("127.0.0.1", 25, "client.example", 20) as user:
        user.sendmail("ann@example.org", "spam@nbstream.invalid", message)
    wait_until(lambda: learned("spam") == 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Sendmail and nbstream with the files of ``deploy/sendmail``, as they are; run by ``plain_root.run_alone``."""

from __future__ import annotations

import smtplib
import socket
import sys
from contextlib import suppress
from pathlib import Path

from tests.deploy.plain_root import RootedServer, entering, learned, make_root, run, serve
from tests.harness.daemon import wait_until
from tests.harness.postfix import DEPLOY

SENDMAIL = "/usr/libexec/sendmail/sendmail"
# A configuration like Debian's, with a domain, and procmail for its mailboxes.
CONFIGURATION = """\
define(`_USE_ETC_MAIL_')dnl
include(`/usr/share/sendmail/cf/m4/cf.m4')dnl
VERSIONID(`test')dnl
OSTYPE(`debian')dnl
DOMAIN(`debian-mta')dnl
FEATURE(`no_default_msa')dnl
DAEMON_OPTIONS(`Family=inet, Name=MTA-v4, Port=smtp, Addr=127.0.0.1')dnl
define(`confDOMAIN_NAME', `mx.example.org')dnl
FEATURE(`nocanonify')dnl
FEATURE(`accept_unresolvable_domains')dnl
LOCAL_DOMAIN(`example.org')dnl
FEATURE(`local_procmail', `/usr/bin/procmail', `procmail -t -Y -a $h -d $u')dnl
{piece}
MAILER_DEFINITIONS
MAILER(`local')dnl
MAILER(`smtp')dnl
"""
INSTALLATION = f"""\
for name in smmta smmsp; do
    groupadd $name
    useradd --system --gid $name --home-dir /var/lib/sendmail --shell /usr/sbin/nologin $name
done
useradd --create-home ann
install --directory --owner smmta --group smmsp --mode 2755 /run/sendmail/mta
install --directory --owner smmta --group smmsp --mode 0750 /var/spool/mqueue
install --directory --mode 0755 /var/lib/sendmail /run/nbstream
touch /etc/mail/local-host-names /etc/mail/aliases
m4 /etc/mail/sendmail.mc > /etc/mail/sendmail.cf
{SENDMAIL} -bi
"""
SENDER = "someone@elsewhere.example"


def delivered(root: Path) -> str:
    """Return ann's mailbox."""
    mailbox = root / "var" / "mail" / "ann"
    return mailbox.read_text() if mailbox.exists() else ""


def send(subject: str, recipient: str = "ann@example.org") -> int:
    """Send a message from 127.0.0.1, with forged fields of ours; return the reply code to it, or to its sender."""
    with smtplib.SMTP("127.0.0.1", 25, "client.example", 20) as client:
        client.ehlo()
        code, _ = client.mail(SENDER)
        if code == 250:
            assert client.rcpt(recipient)[0] == 250
            fields = "X-Spam-Flag: YES\r\nX-Nbstream: forged\r\nX-Spam-Flag: YES\r\n"
            code, _ = client.data(f"Subject: {subject}\r\n{fields}\r\nBuy now.\r\n".encode())
        return code


def main(folder: Path, packages: Path) -> None:
    """Start both, and send mail from outside, also while nbstream is away."""
    run("mount", "-t", "tmpfs", "tmpfs", folder)
    run("ip", "link", "set", "lo", "up")
    root = make_root(folder / "site", packages)
    # It waits a minute where its own name leads nowhere.
    hosts = f"127.0.0.1 localhost\n127.0.1.1 mx.example.org {socket.gethostname()}\n"
    (root / "etc" / "hosts").write_text(hosts)
    piece = (DEPLOY / "sendmail" / "nbstream.m4").read_text()
    (root / "etc" / "mail" / "sendmail.mc").write_text(CONFIGURATION.format(piece=piece))
    run(*entering(root), "sh", "-euc", INSTALLATION)
    filtering = serve(root, DEPLOY / "sendmail" / "nbstream.yaml")
    server = RootedServer(root, "sendmail", SENDMAIL, "-bD", "-q1m", "-X", "/tmp/sendmail-traffic")
    try:
        use(root, server, filtering)
    except BaseException:
        print(server.log, filtering.log, delivered(root), sep="\n---\n", file=sys.stderr)
        raise


def use(root: Path, server: RootedServer, filtering: RootedServer) -> None:
    """Send mail from outside."""

    def listens() -> bool:
        server.assert_runs()
        with suppress(OSError), smtplib.SMTP("127.0.0.1", 25, timeout=5):
            return True
        return False

    wait_until(listens)
    assert send("offer") == 250
    wait_until(lambda: "Subject: offer" in delivered(root))
    message = delivered(root)
    assert message.count("\nX-Nbstream: ") == 1, message
    assert "forged" not in message
    assert "X-Spam-Flag" not in message

    assert send("offer", "spam@nbstream.invalid") == 250
    assert learned("spam") == 1

    filtering.stop()
    assert send("while it is away") == 451


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

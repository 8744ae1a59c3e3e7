"""OpenSMTPD and nbstream with the files of ``deploy/opensmtpd``, as they are; run by ``plain_root.run_alone``."""

from __future__ import annotations

import re
import smtplib
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.deploy.plain_root import RootedServer, entering, learned, make_root, run, serve
from tests.harness.daemon import wait_until
from tests.harness.handbook_pages import page
from tests.harness.postfix import DEPLOY

# What the Debian package does when it is installed, a certificate, and a user.
INSTALLATION = """\
for name in opensmtpd opensmtpq; do
    groupadd $name
    useradd --system --gid $name --home-dir /var/lib/opensmtpd/empty $name
done
useradd --create-home ann
install --directory /var/lib/opensmtpd/empty
install --directory --mode 0711 /var/spool/smtpd
chgrp opensmtpq /usr/sbin/smtpctl
chmod 2755 /usr/sbin/smtpctl
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mx.example.org 2>/dev/null \
    -keyout /etc/ssl/private/mx.example.org.key -out /etc/ssl/mx.example.org.crt
chmod 0600 /etc/ssl/private/mx.example.org.key
echo 'team: ann' > /etc/aliases
"""
STRANGER = "someone@elsewhere.example"
BARGAIN = (
    "From: Bargains <sales@shop.example>\r\nSubject: Incredible bargain, limited offer\r\n\r\n"
    "Buy cheap replica watches now, at a discount of ninety percent. Click here to order today.\r\n"
)


def without_login(configuration: str) -> str:
    """Return the configuration with users who need no login.

    It needs TLS, which no client can begin with the OpenSMTPD 6.8 of Debian 12: it does not fit to OpenSSL 3.
    """
    return re.sub(
        r"(?m)^listen on 0.0.0.0 port 587 .* tag USERS$", "listen on 127.0.0.1 port 587 tag USERS", configuration
    )


def answer(client: smtplib.SMTP, sender: str, recipient: str) -> int:
    """Return the reply code to a recipient, or to the sender where that is refused."""
    code, _ = client.mail(sender)
    if code == 250:
        code, _ = client.rcpt(recipient)
    client.rset()
    return code


def delivered(root: Path, subject: str) -> list[str]:
    """Return ann's messages with this subject."""
    texts = [path.read_text() for path in root.glob("home/ann/Maildir/new/*")]
    return [text for text in texts if f"\nSubject: {subject}\n" in text]


def main(folder: Path, packages: Path, way: str) -> None:
    """Start both, and send what strangers and users send; ``way`` is one of ``WAYS``."""
    run("mount", "-t", "tmpfs", "tmpfs", folder)
    run("ip", "link", "set", "lo", "up")
    root = make_root(folder / "site", packages)
    run(*entering(root), "sh", "-euc", INSTALLATION)
    configuration, use = WAYS[way]
    (root / "etc" / "smtpd.conf").write_text(configuration())
    settings = folder / "nbstream.yaml"
    text = (DEPLOY / "opensmtpd" / "nbstream.yaml").read_text()
    settings.write_text(f"{text}\nmodel: {{min_learned: 10}}\n")
    filtering = serve(root, settings)
    server = RootedServer(root, "opensmtpd", "smtpd", "-d")
    try:
        wait_until(lambda: listens(server))
        use(root)
    except BaseException:
        print(server.log, filtering.log, sep="\n---\n", file=sys.stderr)
        raise


def listens(server: RootedServer) -> bool:
    """Return whether OpenSMTPD accepts mail."""
    server.assert_runs()
    with suppress(OSError), smtplib.SMTP("127.0.0.1", 25, timeout=5):
        return True
    return False


def configuration_through() -> str:
    """Return the file of ``deploy``, with users who need no login."""
    return without_login((DEPLOY / "opensmtpd" / "smtpd.conf").read_text())


def configuration_asking() -> str:
    """Return the file that the guide shows for the filter of rspamd."""
    found = re.search(r"(?ms)^```\n(table aliases.*?)^```$", page("guides/mail-servers.md"))
    assert found
    return found[1]


def send_through(root: Path) -> None:
    """Send mail from outside and from a user."""
    with smtplib.SMTP("127.0.0.1", 25, "client.example", 20) as stranger:
        stranger.ehlo()
        assert answer(stranger, STRANGER, "ann@example.org") == 250
        assert answer(stranger, STRANGER, "spam@nbstream.invalid") == 550
        assert answer(stranger, "ham@nbstream.invalid", "ann@example.org") == 550
        stranger.sendmail(STRANGER, "team@example.org", "Subject: offer\r\nX-Spam-Flag: YES\r\n\r\nBuy now.\r\n")
    wait_until(lambda: delivered(root, "offer"))
    (message,) = delivered(root, "offer")
    assert "\nX-Nbstream: " in message, message
    assert "X-Spam-Flag" not in message, message

    with smtplib.SMTP("127.0.0.1", 587, "client.example", 20) as user:
        user.sendmail("ann@example.org", "spam@nbstream.invalid", message)
        user.sendmail("ann@example.org", "ann@example.org", "Subject: minutes\r\n\r\nAt ten.\r\n")
    wait_until(lambda: delivered(root, "minutes"))
    assert "X-Nbstream" not in delivered(root, "minutes")[0]
    wait_until(lambda: learned("spam") == 1)


def send_asking(root: Path) -> None:
    """Send mail from outside before and after nbstream has learned what is spam."""
    message = "Subject: offer\r\nX-Spam-Flag: YES\r\n\r\nBuy now.\r\n"
    with smtplib.SMTP("127.0.0.1", 25, "client.example", 20) as stranger:
        stranger.sendmail(STRANGER, "team@example.org", message)
    wait_until(lambda: delivered(root, "offer"))
    assert "X-Spam" not in delivered(root, "offer")[0]

    for number in range(20):
        teach("spam", f"{BARGAIN}{number}\r\n")
        teach("ham", f"Subject: minutes {number}\r\n\r\nThe meeting is at ten.\r\n")
    with smtplib.SMTP("127.0.0.1", 25, "client.example", 20) as stranger:
        stranger.sendmail(STRANGER, "team@example.org", BARGAIN)
    wait_until(lambda: list(root.glob("home/ann/Maildir/.Junk/new/*")))
    (path,) = root.glob("home/ann/Maildir/.Junk/new/*")
    assert "\nX-Spam: yes\n" in path.read_text()


def teach(label: str, message: str) -> None:
    """Teach a message over HTTP."""
    url = f"http://127.0.0.1:11334/v1/learn?label={label}"
    urllib.request.urlopen(urllib.request.Request(url, message.encode()), timeout=20).close()


WAYS = {"through": (configuration_through, send_through), "asking": (configuration_asking, send_asking)}

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

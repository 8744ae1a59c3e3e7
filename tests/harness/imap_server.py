"""A Dovecot with TLS whose folders are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.harness.daemon import free_port
from tests.harness.dovecot import MAIL_USER, MAIN, Dovecot
from tests.harness.redis.access import Certificates

TLS = """\
ssl = yes
ssl_cert = <{certificates.certificate}
ssl_key = <{certificates.key}
service imap-login {{
  inet_listener imaps {{
    port = {port}
    ssl = yes
  }}
}}
"""


class ImapServer(Dovecot):
    """Without the pieces that teach; ``tls_port`` is the port for TLS from the beginning."""

    def __init__(self, folder: Path, program: Callable[[str], str]) -> None:
        self.folder = folder
        self._program = program
        self.port, self.tls_port = free_port(), free_port()
        self.certificates = Certificates.make(program("openssl"), folder)
        (folder / "mail").mkdir()
        (folder / "users").write_text("ann:{PLAIN}secret\n")
        pieces = folder / "etc/dovecot/conf.d"
        pieces.mkdir(parents=True)
        (pieces / "tls.conf").write_text(TLS.format(certificates=self.certificates, port=self.tls_port))
        self._config = folder / "dovecot.conf"
        self._config.write_text(MAIN.format(folder=folder, port=self.port, user=MAIL_USER))

    def url(self, folder: str, *, tls: bool = True) -> str:
        """The URL of a folder of ann's."""
        return (
            f"imaps://ann@127.0.0.1:{self.tls_port}/{folder}"
            if tls
            else f"imap://ann@127.0.0.1:{self.port}/{folder}"
        )

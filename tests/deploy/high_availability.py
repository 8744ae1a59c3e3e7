"""The files of ``deploy/redis``, put to work on loopback: three hosts with addresses of their own."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.daemon import free_port
from tests.harness.postfix import DEPLOY
from tests.harness.redis.access import Access, Certificates
from tests.harness.redis.sentinel_set import SentinelSet
from tests.harness.redis.server_process import ServerProcess

FILES = DEPLOY / "redis"
NUMBERS = (11, 12, 13)
"""The last numbers of the three hosts' addresses in the files."""

_FIRST = "192.0.2.11"
_REDIS_PORT, _SENTINEL_PORT = 6379, 26379


class DeployedSet(SentinelSet):
    """Servers and sentinels whose configuration is that of the files, but for addresses, ports and paths."""

    def __init__(self, program: Path, folder: Path, certificates: Certificates) -> None:
        access = Access("CHANGE-ADMIN", certificates, "admin")
        super().__init__(program, folder, access)
        for group in (self.servers, self.sentinels):
            port = free_port(group[0].host)
            for server in group:
                server.port = port

    def own(self, text: str, folder: Path) -> str:
        """Return the text of a file with addresses, ports and paths of this set."""
        assert self.access.certificates is not None
        for number, server in zip(NUMBERS, self.servers, strict=True):
            text = text.replace(f"192.0.2.{number}", server.host)
        text = text.replace(str(_SENTINEL_PORT), str(self.sentinels[0].port))
        text = text.replace(str(_REDIS_PORT), str(self.servers[0].port))
        text = re.sub(r"/etc/\w+/tls/ca.pem", str(self.access.certificates.authority), text)
        text = re.sub(r"/etc/\w+/tls/host.pem", str(self.access.certificates.certificate), text)
        text = re.sub(r"/etc/\w+/tls/host.key", str(self.access.certificates.key), text)
        text = re.sub(r"^logfile .*$", 'logfile ""', text, flags=re.MULTILINE)
        return text.replace("/var/lib/redis", str(folder))

    def configure(self) -> None:
        """Write the configuration of each server and sentinel."""
        for file, group in (("redis.conf", self.servers), ("sentinel.conf", self.sentinels)):
            for number, server in zip(NUMBERS, group, strict=True):
                text = (FILES / file).read_text()
                for option in ("bind 127.0.0.1", "replica-announce-ip", "sentinel announce-ip"):
                    text = text.replace(f"{option} {_FIRST}", f"{option} 192.0.2.{number}")
                # All hosts are this machine here: each serves at its own address alone, and asks from there.
                text = text.replace("bind 127.0.0.1 ", "bind ")
                if number != NUMBERS[0]:
                    text = text.replace("#replicaof", "replicaof")
                # Only the time until a failover is shorter than in the file.
                text = text.replace(
                    "down-after-milliseconds nbstream 5000", "down-after-milliseconds nbstream 1000"
                )
                text = text.replace("failover-timeout nbstream 30000", "failover-timeout nbstream 3000")
                text += f"bind-source-addr {server.host}\n"
                server.write_configuration(self.own(text, server.folder))

    def write_settings(self, folder: Path, further: str = "", listeners: str = "") -> Path:
        """Write the settings of a mail host into a new ``folder``, with further settings and listeners."""
        folder.mkdir()
        password = folder / "redis.password"
        password.write_text("CHANGE-NBSTREAM\n")
        password.chmod(0o600)
        text = (FILES / "nbstream.yaml").read_text().replace("/etc/nbstream/redis.password", str(password))
        text = self.own(text, folder).replace("/var/lib/nbstream", str(folder / "state"))
        text = text.replace("127.0.0.1:10025", "127.0.0.1:0").replace("smtp://127.0.0.1:10026", "maildir")
        text = text.replace("listeners:\n", f"listeners:\n  http: {{listen: 127.0.0.1:0}}\n{listeners}")
        file = folder / "nbstream.yaml"
        file.write_text(f"{text}log: {{format: json}}\n{further}")
        return file


def denied(server: ServerProcess) -> list[object]:
    """Return what a server or sentinel has refused to its users, by ACL LOG."""
    log = server.ask("ACL", "LOG")
    assert isinstance(log, list)
    return log

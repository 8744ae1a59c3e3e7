"""How the servers of a set are protected: by a password, by TLS with a certificate of an own authority, or not."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOSTS = tuple(f"127.77.0.{number}" for number in range(1, 7))
"""The addresses of the servers of a set: each has one of its own, as on machines of their own."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority, and one certificate with its key for all servers and clients."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def make(
        cls,
        openssl: str,
        folder: Path,
        names: Sequence[str] = ("IP:127.0.0.1", *(f"IP:{host}" for host in HOSTS)),
        days: int = 2,
    ) -> Certificates:
        """Make an authority and sign a certificate for these names; with negative ``days`` it has expired."""
        files = cls(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")
        authority_key, request, extensions = folder / "ca.key", folder / "request.pem", folder / "extensions"
        extensions.write_text(f"subjectAltName={','.join(names)}\nextendedKeyUsage=serverAuth,clientAuth\n")
        new_key = "-newkey rsa:2048 -nodes"
        commands = [
            f"req -x509 {new_key} -days 2 -subj /CN=authority -keyout {authority_key} -out {files.authority}",
            f"req {new_key} -subj /CN=server -keyout {files.key} -out {request}",
            f"x509 -req -in {request} -CA {files.authority} -CAkey {authority_key} -CAcreateserial -days {days}"
            f" -extfile {extensions} -out {files.certificate}",
        ]
        for words in commands:
            subprocess.run([openssl, *words.split()], check=True, capture_output=True, timeout=60)
        return files


@dataclass(frozen=True, slots=True)
class Access:
    """The password on servers and sentinels, and the certificates; None is without.

    ``user`` may do all, and the default user nothing; without one the password is that of the default user.
    ``users`` and ``sentinel_users`` are further users, such as ``reader on >secret +@read ~*``.
    """

    password: str | None = None
    certificates: Certificates | None = None
    user: str | None = None
    users: tuple[str, ...] = ()
    sentinel_users: tuple[str, ...] = ()

    def server_lines(self, port: int) -> list[str]:
        """Return the lines of a configuration that open ``port`` and protect it."""
        if self.certificates is None:
            return [f"port {port}", *self._password_lines()]
        return [
            "port 0",
            f"tls-port {port}",
            f"tls-ca-cert-file {self.certificates.authority}",
            f"tls-cert-file {self.certificates.certificate}",
            f"tls-key-file {self.certificates.key}",
            "tls-replication yes",
            *self._password_lines(),
        ]

    def _password_lines(self) -> list[str]:
        if self.password is None:
            return []
        if self.user is None:
            return [f"requirepass {self.password}"]
        return ["user default off", f"user {self.user} on >{self.password} ~* &* +@all"]

    def replication_lines(self) -> list[str]:
        """Return the lines by which a replica logs in at its primary."""
        user = [] if self.user is None else [f"masteruser {self.user}"]
        return user if self.password is None else [*user, f"masterauth {self.password}"]

    def migration_words(self) -> list[str]:
        """Return the words of a MIGRATE by which a node logs in at another one."""
        if self.password is None:
            return []
        return ["AUTH", self.password] if self.user is None else ["AUTH2", self.user, self.password]

    def client_options(self) -> dict[str, object]:
        """Return what a client of redis-py needs for this."""
        options: dict[str, object] = {"username": self.user, "password": self.password}
        if self.certificates is not None:
            options |= {
                "ssl": True,
                "ssl_ca_certs": str(self.certificates.authority),
                "ssl_certfile": str(self.certificates.certificate),
                "ssl_keyfile": str(self.certificates.key),
            }
        return options

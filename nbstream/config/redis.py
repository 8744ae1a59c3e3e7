"""The settings of Redis: which server, or who knows the primary, and how nbstream logs in there."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr, Strict, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress
from nbstream.config.addresses import read_address
from nbstream.config.paths import read_path
from nbstream.config.redis_url import (
    EMBEDDED,
    read_redis_url,
    redact_url,
    url_has_password,
    url_has_tls_file,
    url_has_user,
    url_is_unchecked,
)
from nbstream.config.section import CaFile, PasswordFile, Seconds, Section
from nbstream.config.values import SecretFile, require_usable_certificate

_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")


def read_node_address(value: object) -> TcpAddress:
    """Read ``HOST:PORT`` or ``[IPV6]:PORT``, with a port from 1 to 65535."""
    with suppress(ValueError):  # it would allow port 0
        address = read_address(value)
        if address.port != 0:
            return address
    raise ValueError("must be HOST:PORT or [IPV6]:PORT, the port from 1 to 65535")


def read_redis_name(value: object) -> str:
    """Read a name without spaces, of up to 200 characters."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise ValueError("must be a name without spaces")
    return value


NodeAddresses = Annotated[
    tuple[Annotated[TcpAddress, BeforeValidator(read_node_address)], ...], Strict(False), Field(max_length=100)
]
RedisName = Annotated[str, BeforeValidator(read_redis_name)]
TlsFile = Annotated[Path, BeforeValidator(read_path)]


class RedisSettings(Section):
    """The Redis that holds the counts. ``url`` is hidden as a whole, because it may contain a password."""

    url: Annotated[SecretStr, BeforeValidator(read_redis_url)] = SecretStr(EMBEDDED)
    """Which Redis holds the counts. ``embedded`` is a private server that nbstream starts and stops. ``rediss://``
    is TLS. A Redis of your own needs persistence and ``maxmemory-policy noeviction``.
    """

    sentinels: NodeAddresses = ()
    """The Sentinels that know where the primary is, in place of ``url``. They are all asked at once."""

    service: RedisName | None = None
    """The name that the Sentinels have for the primary, such as ``mymaster``."""

    cluster: NodeAddresses = ()
    """Some nodes of a Redis Cluster, in place of ``url``. The others become known through them."""

    user: RedisName | None = None
    """The user of that Redis (ACL); without it the user is ``default``."""

    password_file: PasswordFile | None = None
    """A file that holds the password of that Redis, which then need not stand in the URL."""

    sentinel_user: RedisName | None = None
    """The user of the Sentinels, which have users of their own."""

    sentinel_password_file: PasswordFile | None = None
    """A file that holds the password of the Sentinels."""

    tls: bool = False
    """Use TLS with the servers behind ``sentinels`` or ``cluster``, and with the Sentinels themselves. A ``url``
    says that by ``rediss://``.
    """

    ca_file: CaFile | None = None
    """A file with the certificate authorities whose servers are trusted; without it those of the system are."""

    cert_file: TlsFile | None = None
    """A file with a certificate that nbstream shows to servers which ask for one."""

    key_file: TlsFile | None = None
    """A file with the key of that certificate, unless the same file has it. The key must have no passphrase."""

    timeout_seconds: Seconds = 5
    """The deadline of each command to Redis. A check never waits for Redis; learning does."""

    wait_replicas: Annotated[int, Field(ge=0, le=16)] = 0
    """How many replicas must have a lesson before it is acknowledged (WAIT). Where they do not have it within half
    of ``timeout_seconds``, the answer is 451 or 503; the lesson is stored all the same, and a retry does no harm.
    With the number of all replicas, a failover loses nothing that was acknowledged.
    """

    @field_validator("sentinels", "cluster")
    @classmethod
    def _one_place(cls, value: tuple[TcpAddress, ...], info: ValidationInfo) -> tuple[TcpAddress, ...]:
        if value and not _is_embedded_url(info):
            raise ValueError("must be left out: redis.url already says which Redis")
        if value and info.field_name == "cluster" and info.data.get("sentinels"):
            raise ValueError("must be left out: redis.sentinels already say which Redis")
        if len(set(value)) < len(value):
            raise ValueError("must name each address once")
        return value

    @field_validator("wait_replicas")
    @classmethod
    def _replicas_of_a_server(cls, value: int, info: ValidationInfo) -> int:
        if value and _has_no_login(info):
            raise ValueError("must be left out: the embedded Redis has no replicas")
        return value

    @field_validator("service")
    @classmethod
    def _service_of_sentinels(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("sentinels"):
            raise ValueError("must be given with redis.sentinels: the name that they have for the primary")
        if value is not None and not info.data.get("sentinels", True):
            raise ValueError("must be left out: only redis.sentinels need it")
        return value

    @field_validator("user")
    @classmethod
    def _one_user(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and _has_no_login(info):
            raise ValueError("must be left out: the embedded Redis has no users")
        if value is not None and "url" in info.data and url_has_user(info.data["url"]):
            raise ValueError("must be left out: redis.url already names a user")
        return value

    @field_validator("password_file")
    @classmethod
    def _one_password(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        if value and _has_no_login(info):
            raise ValueError("must be left out: the embedded Redis has no password")
        if value and "url" in info.data and url_has_password(info.data["url"]):
            raise ValueError("must be left out: redis.url already carries a password")
        return value

    @field_validator("sentinel_user", "sentinel_password_file")
    @classmethod
    def _login_of_sentinels(cls, value: str | SecretFile | None, info: ValidationInfo) -> str | SecretFile | None:
        if value is not None and not info.data.get("sentinels", True):
            raise ValueError("must be left out: only redis.sentinels need it")
        return value

    @field_validator("tls")
    @classmethod
    def _tls_by_url(cls, value: bool, info: ValidationInfo) -> bool:
        if value and not info.data.get("sentinels", True) and not info.data.get("cluster", True):
            raise ValueError("must be left out: redis.url says by rediss:// that it is TLS")
        return value

    @field_validator("ca_file", "cert_file", "key_file")
    @classmethod
    def _files_of_tls(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is None:
            return value
        url = info.data.get("url")
        if url is not None and not info.data.get("tls", True) and not _is_tls_url(url):
            raise ValueError(
                "must be left out: the connection is no TLS: that needs rediss:// in redis.url, or redis.tls"
            )
        if url is not None and url_has_tls_file(url):
            raise ValueError("must be left out: redis.url already names files for TLS")
        if info.field_name == "key_file" and info.data.get("cert_file", value) is None:
            raise ValueError("must be left out: it is the key of redis.cert_file, which is not given")
        return value

    @field_validator("key_file")
    @classmethod
    def _usable_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        certificate = info.data.get("cert_file")
        if certificate is not None:
            require_usable_certificate(certificate, value, "redis.cert_file")
        return value

    @property
    def is_embedded(self) -> bool:
        """True when the daemon runs its own Redis."""
        return self.url.get_secret_value() == EMBEDDED and not self.sentinels and not self.cluster

    @property
    def display_url(self) -> str:
        """Where Redis is, without user, password and options: ``embedded``, the URL, or the nodes that know it.

        It is fit for logs.
        """
        nodes = ",".join(map(str, self.sentinels or self.cluster))
        if self.sentinels:
            return f"sentinels of {self.service} at {nodes}"
        return f"cluster at {nodes}" if self.cluster else redact_url(self.url)

    @property
    def password(self) -> SecretStr | None:
        """The secret of ``password_file``, or None. A password in the URL is not returned."""
        return self.password_file.secret if self.password_file else None

    @property
    def sentinel_password(self) -> SecretStr | None:
        """The secret of ``sentinel_password_file``, or None."""
        return self.sentinel_password_file.secret if self.sentinel_password_file else None

    @property
    def url_has_secret(self) -> bool:
        """Whether the URL itself carries a password."""
        return url_has_password(self.url)

    @property
    def warnings(self) -> list[str]:
        """One sentence for each thing that is allowed and dangerous."""
        if not url_is_unchecked(self.url):
            return []
        return [
            "redis.url: the certificate of Redis is not checked (ssl_cert_reqs or ssl_check_hostname): "
            "whoever is on the way can read the password and all that is learned, and change it"
        ]


def _is_embedded_url(info: ValidationInfo) -> bool:
    """Whether the URL is the default; also where it was refused, since that has to be solved first."""
    url = info.data.get("url")
    return url is None or url.get_secret_value() == EMBEDDED


def _has_no_login(info: ValidationInfo) -> bool:
    nodes = info.data.get("sentinels", True) or info.data.get("cluster", True)
    return "url" in info.data and _is_embedded_url(info) and not nodes


def _is_tls_url(url: SecretStr) -> bool:
    return url.get_secret_value().startswith("rediss://")

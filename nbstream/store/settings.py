"""The settings of the store: Redis, the model in it, and the memory of checked messages.

Rules: the URL of Redis has no options but the number of the database: each other one has a key of its own here,
and any other text would reach the client library unchecked.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress
from nbstream.settings.values import (
    CaFile,
    FilePath,
    PasswordFile,
    Seconds,
    SecretFile,
    Section,
    read_address,
    read_path,
    require_usable_certificate,
)

EMBEDDED = "embedded"

_URL_STARTS = ("redis://", "rediss://", "unix://")
_DATABASE = re.compile(r"(?:/[0-9]{0,9})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ALLOWED_URL = "must be embedded, redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH; DB is a number"
_HIDDEN = "***"
_OPTIONS = re.compile(r"(?:db=[0-9]{1,9})?")


def read_redis_url(value: object) -> SecretStr:
    """Read ``embedded``, ``redis://HOST:PORT/DB``, ``rediss://HOST:PORT/DB`` or ``unix:///PATH``.

    The result is a secret, because it may contain a password.
    """
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or _CONTROL.search(text) or not (text == EMBEDDED or _is_redis_url(text)):
        raise ValueError(_ALLOWED_URL)
    if _OPTIONS.fullmatch(urlsplit(text).query) is None:
        raise ValueError(
            "must have no options after the ? but db, a number: each other one is a key beside redis.url"
        )
    return SecretStr(text)


def _is_redis_url(text: str) -> bool:
    # urlsplit and .port put the text, with its password, into their errors. These must not get out.
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    # An @ behind the host means that the password has a bare / or ?: host and port are then parts of the password.
    if not text.startswith(_URL_STARTS) or parts.fragment or "@" in parts.path + parts.query:
        return False
    if parts.scheme == "unix":
        return not _host(parts) and len(parts.path) > 1
    return bool(parts.hostname) and port != 0 and _DATABASE.fullmatch(parts.path) is not None


def url_has_user(url: SecretStr) -> bool:
    """True when the URL itself names a user."""
    return bool(urlsplit(url.get_secret_value()).username)


def url_has_password(url: SecretStr) -> bool:
    """True when the URL itself carries a password."""
    return urlsplit(url.get_secret_value()).password is not None


def redact_url(url: SecretStr) -> str:
    """Return the URL as a log may show it: without user, password and options."""
    text = url.get_secret_value()
    if text == EMBEDDED:
        return text
    parts = urlsplit(text)
    return f"{parts.scheme}://{_host(parts)}{parts.path}"


def url_with_hidden_password(url: SecretStr) -> str:
    """Return the URL as it was written, with ``***`` in the place of its password."""
    text = url.get_secret_value()
    if not url_has_password(url):
        return text
    parts = urlsplit(text)
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{user}{colon}{_HIDDEN}{at}{host}{parts.path}{query}"


def _host(parts: SplitResult) -> str:
    """Host and port as written, without what precedes the @."""
    return parts.netloc.rpartition("@")[2]


_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")


def read_node_address(value: object) -> TcpAddress:
    """Read ``HOST:PORT`` or ``[IPV6]:PORT``."""
    with suppress(ValueError):  # it would allow port 0
        address = read_address(value)
        if address.port != 0:
            return address
    raise ValueError("must be HOST:PORT or [IPV6]:PORT, the port from 1 to 65535")


def read_redis_name(value: object) -> str:
    """Read a name without spaces."""
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
    """Which Redis holds the counts. ``embedded`` is a private server that nbstream starts. A Redis of your own
    needs persistence and ``maxmemory-policy noeviction``.
    """

    sentinels: NodeAddresses = ()
    """The Sentinels that know where the primary is, in place of ``url``."""

    service: RedisName | None = None
    """The name that the Sentinels have for the primary, such as ``mymaster``."""

    cluster: NodeAddresses = ()
    """Some nodes of a Redis Cluster, in place of ``url``."""

    user: RedisName | None = None
    """The user of that Redis (ACL)."""

    password_file: PasswordFile | None = None
    """A file that holds the password of that Redis."""

    sentinel_user: RedisName | None = None
    """The user of the Sentinels."""

    sentinel_password_file: PasswordFile | None = None
    """A file that holds the password of the Sentinels."""

    tls: bool = False
    """Use TLS with the servers behind ``sentinels`` or ``cluster``, and with the Sentinels."""

    ca_file: CaFile | None = None
    """The certificate authorities that are trusted; ``null`` for those of the system."""

    cert_file: TlsFile | None = None
    """A certificate to show to servers which ask for one."""

    key_file: TlsFile | None = None
    """The key of that certificate, unless the same file has it; without a passphrase."""

    timeout_seconds: Seconds = 5
    """The deadline of each command to Redis."""

    wait_replicas: Annotated[int, Field(ge=0, le=16)] = 0
    """How many replicas must have a lesson before it is acknowledged (WAIT), else the answer is 451 or 503.
    With the number of all replicas, a failover loses nothing.
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


def _is_embedded_url(info: ValidationInfo) -> bool:
    """Whether the URL is the default; also where it was refused, since that has to be solved first."""
    url = info.data.get("url")
    return url is None or url.get_secret_value() == EMBEDDED


def _has_no_login(info: ValidationInfo) -> bool:
    nodes = info.data.get("sentinels", True) or info.data.get("cluster", True)
    return "url" in info.data and _is_embedded_url(info) and not nodes


def _is_tls_url(url: SecretStr) -> bool:
    return url.get_secret_value().startswith("rediss://")


class MemorySettings(Section):
    """What is remembered of checked messages, for feedback by id and for explanations."""

    hours: Annotated[int, Field(ge=1, le=8760)] = 72
    """How long a checked message is remembered."""

    messages: Annotated[int, Field(ge=0, le=10_000_000)] = 20_000
    """How many checked messages are remembered. Each takes about 4 kB of Redis."""

    envelope: bool | None = None
    """Remember also sender, up to thirty recipients, From, subject and action, for the list on the page.
    ``null`` is ``true`` where ``listeners.http`` is on.
    """


class MinLearnedSettings(Section):
    """The messages that each class must have before there is a verdict other than unsure."""

    spam: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Until this many spam messages are learned, every verdict is unsure, with the reason ``learning N/M``."""

    ham: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Until this many ham messages are learned, every verdict is unsure, with the reason ``learning N/M``."""


_MODEL_NAME = re.compile(r"[a-z0-9._-]+")


def read_model_name(value: object) -> str:
    """Read a text of the characters ``a-z0-9._-``. It becomes a part of the Redis keys."""
    if not isinstance(value, str) or _MODEL_NAME.fullmatch(value) is None:
        raise ValueError("must be text of the characters a-z 0-9 . _ - (a number needs quotes)")
    return value


_REQUIRED_CLASSES = tuple(sorted(MinLearnedSettings.model_fields))
_CLASS_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_TAKEN_NAME = re.compile(r"unlearn|release|none|reinforce-.*")
MAX_CLASSES = 8


def read_class_name(value: object) -> str:
    """Read a name of 1 to 31 lower-case letters, digits and ``-``, which begins with a letter."""
    if isinstance(value, str) and _CLASS_NAME.fullmatch(value):
        if _TAKEN_NAME.fullmatch(value):
            raise ValueError("must be another name: forms and metrics say something else by this one")
        return value
    raise ValueError("must be a name of 1 to 31 lower-case letters, digits and -, which begins with a letter")


def check_classes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the classes of a model. Raises ``ValueError`` where one is missing, or there are too many."""
    if not set(_REQUIRED_CLASSES) <= set(names):
        raise ValueError("must have ham and spam")
    if len(set(names)) < len(names) or len(names) > MAX_CLASSES:
        raise ValueError(f"must be at most {MAX_CLASSES} different names")
    return names


class ModelSettings(Section):
    """The model that is used, and how it computes scores."""

    name: Annotated[str, BeforeValidator(read_model_name)] = "default"
    """The name of the model, part of its Redis keys. Another name is another model, which starts from nothing."""

    classes: Annotated[
        tuple[Annotated[str, BeforeValidator(read_class_name)], ...], Strict(False), AfterValidator(check_classes)
    ] = _REQUIRED_CLASSES
    """``ham``, ``spam``, and at most 6 kinds of ham. P(spam) stays the same with kinds. ``max_tokens`` must be
    ``null`` then.
    """

    min_learned: MinLearnedSettings = MinLearnedSettings()
    """The messages of each class that a model must have learned before a verdict other than unsure."""

    ledger_days: Annotated[int, Field(ge=1, le=36500)] = 365
    """How long the model remembers what a message was learned as. After that it can no longer be unlearned or
    corrected.
    """

    max_tokens: Annotated[int, Field(ge=10_000, le=1_000_000_000)] | None = None
    """The number of distinct tokens that are kept. At 95 % of it tokens are evicted until 85 % are left."""

    private_tokens: bool = False
    """Store keyed hashes in place of words. Choose it before the first start. See "What it stores about
    people".
    """

    private_tokens_key_file: FilePath | None = None
    """The file with that key; ``null`` is ``private-tokens.key`` in ``state_dir``. It is made where it is
    missing. All machines that use the model need the same file.
    """

    @field_validator("max_tokens")
    @classmethod
    def _kinds_are_not_evicted(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and len(info.data.get("classes", ())) > len(_REQUIRED_CLASSES):
            raise ValueError("must be null with kinds in model.classes: the counts of kinds are not evicted")
        return value

    @property
    def kinds(self) -> tuple[str, ...]:
        """Ham and the other classes than spam, where there are any; else empty."""
        others = tuple(name for name in self.classes if name not in _REQUIRED_CLASSES)
        return ("ham", *others) if others else ()

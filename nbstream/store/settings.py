"""The settings of the store: Redis, the model in it, and the memory of checked messages.

Rules: the URL of Redis has no options but the number of the database: each other one has a key of its own here.
The client library would take a database that is no number for the first one, and any option unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress
from nbstream.bayes.columns import CLASS_NAME
from nbstream.settings.values import (
    CaFile,
    PasswordFile,
    Seconds,
    Section,
    read_address,
    read_path,
    require_usable_certificate,
)

EMBEDDED = "embedded"

_OPTIONS = re.compile(r"(db=[0-9]{1,9})?")
_DATABASE = re.compile(r"/?[0-9]{0,9}")
_ALLOWED_URL = (
    "must be embedded, redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH; DB is a number, "
    "as in ?db=1, and each other option is a key beside redis.url"
)


def read_redis_url(value: object) -> SecretStr:
    """Read ``embedded``, ``redis://HOST:PORT/DB``, ``rediss://HOST:PORT/DB`` or ``unix:///PATH``.

    The result is a secret, because it may contain a password.
    """
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or not (text == EMBEDDED or _is_redis_url(text)):
        raise ValueError(_ALLOWED_URL)
    return SecretStr(text)


def _is_redis_url(text: str) -> bool:
    try:
        parts, port = urlsplit(text), urlsplit(text).port
    except ValueError:
        return False
    if (
        not (text.isprintable() and text.startswith(f"{parts.scheme}://"))
        or not _OPTIONS.fullmatch(parts.query)
        or "#" in text
        or "@" in parts.path
    ):
        return False
    if parts.scheme == "unix":
        return not parts.hostname and port is None and len(parts.path) > 1
    is_network = parts.scheme in {"redis", "rediss"} and bool(parts.hostname) and port != 0
    return is_network and _DATABASE.fullmatch(parts.path) is not None


def url_has_user(url: SecretStr) -> bool:
    """True when the URL itself names a user."""
    return bool(urlsplit(url.get_secret_value()).username)


def url_has_password(url: SecretStr) -> bool:
    """True when the URL itself carries a password."""
    return urlsplit(url.get_secret_value()).password is not None


def redact_url(url: SecretStr) -> str:
    """Return the URL as a log may show it: without user, password and options."""
    parts = urlsplit(url.get_secret_value())
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else EMBEDDED


def url_with_hidden_password(url: SecretStr) -> str:
    """Return the URL as it was written, with ``***`` in the place of its password."""
    text, parts = url.get_secret_value(), urlsplit(url.get_secret_value())
    return text if parts.password is None else text.replace(f":{parts.password}@", ":***@", 1)


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
    """The user of that Redis (ACL), and of Sentinels that want one."""

    password_file: PasswordFile | None = None
    """A file that holds the password of that Redis, and of Sentinels that want one."""

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

    @field_validator("*")
    @classmethod
    def _fits(cls, value: object, info: ValidationInfo) -> object:
        needs = ("url", "sentinels", "service", "cluster")
        before = needs[: needs.index(info.field_name)] if info.field_name in needs else needs
        if all(name in info.data for name in before):  # else that has to be solved first
            problem = _contradiction(str(info.field_name), value, info.data)
            if problem:
                raise ValueError(f"must be {problem}")
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


def _contradiction(name: str, value: object, before: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the value of a key beside those ``before`` it; None where nothing is."""
    if name == "service" and value is None and before["sentinels"]:
        return "given with redis.sentinels: the name that they have for the primary"
    if not value or name == "url":
        return None
    url = before["url"]
    is_url, sentinels, cluster = url.get_secret_value() != EMBEDDED, before.get("sentinels"), before.get("cluster")
    has_login, has_tls = (
        is_url or sentinels or cluster,
        before.get("tls") or urlsplit(url.get_secret_value()).scheme == "rediss",
    )
    reasons = {
        "sentinels": is_url and "redis.url already says which Redis",
        "cluster": (is_url and "redis.url already says which Redis")
        or (sentinels and "redis.sentinels already say which Redis"),
        "wait_replicas": not has_login and "the embedded Redis has no replicas",
        "user": (not has_login and "the embedded Redis has no users")
        or (url_has_user(url) and "redis.url already names a user"),
        "password_file": (not has_login and "the embedded Redis has no password")
        or (url_has_password(url) and "redis.url already carries a password"),
        "tls": not (sentinels or cluster) and "redis.url says by rediss:// that it is TLS",
        "service": not sentinels and "only redis.sentinels need it",
        **dict.fromkeys(
            ("ca_file", "cert_file", "key_file"),
            not has_tls and "the connection is no TLS: that needs rediss:// in redis.url, or redis.tls",
        ),
    }
    reason = reasons.get(name)
    if name == "key_file" and before.get("cert_file", value) is None:
        reason = reason or "it is the key of redis.cert_file, which is not given"
    return f"left out: {reason}" if reason else None


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


_MODEL_NAME = re.compile(r"[a-z0-9._-]+")


def read_model_name(value: object) -> str:
    """Read a text of the characters ``a-z0-9._-``. It becomes a part of the Redis keys."""
    if not isinstance(value, str) or _MODEL_NAME.fullmatch(value) is None:
        raise ValueError("must be text of the characters a-z 0-9 . _ - (a number needs quotes)")
    return value


_REQUIRED_CLASSES = ("ham", "spam")
_TAKEN_NAME = re.compile(r"unlearn|release|none|reinforce-.*")
MAX_CLASSES = 8


def read_class_name(value: object) -> str:
    """Read a name of 1 to 31 lower-case letters, digits and ``-``, which begins with a letter."""
    if isinstance(value, str) and re.fullmatch(CLASS_NAME, value):
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
    """``ham``, ``spam``, and at most 6 kinds of ham. P(spam) stays the same with kinds."""

    min_learned: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Until so many ham and so many spam messages are learned, every verdict is unsure, with the reason
    ``learning N/M``.
    """

    ledger_days: Annotated[int, Field(ge=1, le=36500)] = 365
    """How long the model remembers what a message was learned as. After that it can no longer be unlearned or
    corrected.
    """

    max_tokens: Annotated[int, Field(ge=10_000, le=1_000_000_000)] | None = None
    """The number of distinct tokens that are kept. At 95 % of it tokens are evicted until 85 % are left."""

    private_tokens: bool = False
    """Store keyed hashes in place of words. Choose it before the first start. The key is in
    ``private-tokens.key`` in ``state_dir``; all machines that use the model need the same file. See "What it
    stores about people".
    """

    @property
    def messages_needed(self) -> Mapping[str, int]:
        """How many messages of each class have to be learned before there is a verdict other than unsure."""
        return {"spam": self.min_learned, "ham": self.min_learned}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Ham and the other classes than spam, where there are any; else empty."""
        others = tuple(name for name in self.classes if name not in _REQUIRED_CLASSES)
        return ("ham", *others) if others else ()

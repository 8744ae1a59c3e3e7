"""Readers for the values of a configuration file: paths, addresses, next hops, networks, secrets; and sections.

Rules: each reader takes the value that YAML gave, or one that is already of its type. A refusal is a ValueError
whose text says what is allowed ("must be ...") and repeats neither the value nor a secret, nor the content of a
file.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from nbstream.addresses import DEFAULT_SOCKET_MODE, TcpAddress, UnixAddress
from nbstream.policy.actions import Action
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.config_bounds import MAX_FALSE_POSITIVE_RATE, MIN_FALSE_POSITIVE_RATE
from nbstream.policy.field_names import MAX_TAG_BYTES, require_own_name
from nbstream.policy.header_policy import require_field_value


def read_path(value: object) -> Path:
    """Read a path. A relative path starts in the working folder, and a leading ``~`` is the home folder."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("must be a path")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ValueError("must be a path without ~ where the home folder is not known") from None


def read_text_file(path: Path, limit: int) -> str:
    """Return the text of a file of at most ``limit`` bytes.

    Raises ValueError, without the content, for a file that cannot be read, is larger, or is no UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ValueError(f"must be a readable file ({error.strerror})") from None
    if len(content) > limit:
        raise ValueError(f"must be a file of at most {limit} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"must be a file of UTF-8 text (byte {error.start} is not)") from None


_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
# Underscores are no part of host names (RFC 1123 2.1), but container networks give such names.
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_ALLOWED_ADDRESS = "must be HOST:PORT or [IPV6]:PORT, the port from 0 to 65535"
MAX_SOCKET_PATH = 99  # unix(7) allows 107, and a socket is first made under a name that may be eight bytes longer
_ALLOWED_UNIX_ADDRESS = (
    f"must be unix:/PATH, the path absolute and of at most {MAX_SOCKET_PATH} bytes, with mode=0660 or group=NAME "
    "behind it where that is wanted"
)
_LOOKS_LIKE_OPTION = re.compile(r"\s\w+=")
_SOCKET_OPTION = re.compile(r"(?P<rest>.*\S)\s+(?:mode=(?P<mode>0?[0-7]{3})|group=(?P<group>\S{1,100}))")


def read_address(value: object) -> TcpAddress:
    """Read ``HOST:PORT`` or ``[IPV6]:PORT``, with a port from 0 to 65535."""
    if isinstance(value, TcpAddress):
        return value
    parts = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if parts is None or int(parts["port"]) > 65535 or not _is_host(parts):
        raise ValueError(_ALLOWED_ADDRESS)
    return TcpAddress(parts["v6"] or parts["host"], int(parts["port"]))


def _is_host(parts: re.Match[str]) -> bool:
    if parts["v6"]:
        return _is_ip(parts["v6"], IPv6Address)
    # A name whose last label is a number can only be a mistyped IPv4 address (RFC 3696 2).
    if parts["host"].rpartition(".")[2].isdecimal():
        return _is_ip(parts["host"], IPv4Address)
    return _HOST.fullmatch(parts["host"]) is not None


def _is_ip(text: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def read_listen_address(value: object) -> TcpAddress | UnixAddress:
    """Read ``HOST:PORT`` or ``[IPV6]:PORT``, with a port from 0 to 65535, or ``unix:/PATH``.

    Behind the path of a unix socket may stand ``mode=0660`` and ``group=NAME``: its permissions and its group.
    """
    if isinstance(value, UnixAddress):
        return value
    if not isinstance(value, str) or not value.startswith("unix:"):
        return read_address(value)
    text, mode, group = value.removeprefix("unix:"), None, None
    while option := _SOCKET_OPTION.fullmatch(text):
        if (mode if option["mode"] else group) is not None:
            raise ValueError(_ALLOWED_UNIX_ADDRESS)
        text, mode, group = option["rest"], option["mode"] or mode, option["group"] or group
    if _LOOKS_LIKE_OPTION.search(text):  # mistyped: it would become a part of the path
        raise ValueError(_ALLOWED_UNIX_ADDRESS)
    path = read_path(text or None)
    # A longer path does not fit into the address of a unix socket (unix(7)).
    if not path.is_absolute() or len(bytes(path)) > MAX_SOCKET_PATH:
        raise ValueError(_ALLOWED_UNIX_ADDRESS)
    return UnixAddress(path, DEFAULT_SOCKET_MODE if mode is None else int(mode, 8), group)


def read_unix_address(value: object) -> UnixAddress:
    """Read ``unix:/PATH``, behind which ``mode=0660`` and ``group=NAME`` may stand."""
    if not isinstance(value, UnixAddress) and not str(value).startswith("unix:"):
        raise ValueError("must be unix:/PATH, since it is a unix socket in any case")
    address = read_listen_address(value)
    assert isinstance(address, UnixAddress)
    return address


def read_host_name(value: object) -> str:
    """Read a host name such as ``mx.example.org``, fully qualified or short."""
    if not isinstance(value, str) or _HOST.fullmatch(value) is None:
        raise ValueError("must be a host name such as mx.example.org")
    return value


def read_server_name(value: object) -> str:
    """Read the name of a server as its certificate has it: a host name, or an IP address without brackets."""
    with suppress(ValueError):
        return str(ip_address(value)) if isinstance(value, str) else read_host_name(value)
    return read_host_name(value)


MAX_SECRET_BYTES = 4096
_SMTP_PORT = 25

Network: TypeAlias = IPv4Network | IPv6Network

_MODEL_NAME = re.compile(r"[a-z0-9._-]+")
_MAIL_ADDRESS = re.compile(r"[^\s<>@\x00-\x1f\x7f]{1,64}@[^\s<>@\x00-\x1f\x7f]{1,253}")
_SYSTEM_USER = re.compile(r"[^\s:/,\x00-\x1f\x7f]{1,100}")
_AUTHSERV_ID = re.compile(r"[^\s\x00-\x1f\x7f;()\"\\=/@,<>\[\]]{1,253}")

MAX_FALSE_POSITIVE_COST = 1e9
MAX_WORKERS = 128
_ALLOWED_REJECT = (
    "must be null, a number above 0 and at most 1, {false_positive_cost: C} with C above 0, "
    f"or {{max_false_positive_rate: R}} with R from {MIN_FALSE_POSITIVE_RATE:.5f} to {MAX_FALSE_POSITIVE_RATE}"
)
_ALLOWED_NEXT_HOP = (
    "must be maildir, maildir:PATH, smtp://HOST:PORT, smtps://HOST:PORT, lmtp://HOST:PORT, smtp:unix:/PATH or "
    "lmtp:unix:/PATH"
)


@dataclass(frozen=True, slots=True)
class MaildirNextHopSetting:
    """The next hop is a Maildir. A path of None means the Maildir in ``state_dir``."""

    path: Path | None = None


@dataclass(frozen=True, slots=True)
class ServerNextHopSetting:
    """The next hop is a server; ``protocol`` is ``smtp``, ``smtps`` (SMTP within TLS) or ``lmtp``."""

    protocol: str
    address: TcpAddress | UnixAddress

    @property
    def is_on_network(self) -> bool:
        """Whether it is reached by TCP."""
        return isinstance(self.address, TcpAddress)


@dataclass(frozen=True, slots=True)
class FalsePositiveCost:
    """A threshold as a cost ratio: how many passed spam messages are as bad as one lost ham."""

    ratio: float


@dataclass(frozen=True, slots=True)
class FalsePositiveRate:
    """A threshold as a budget: the largest share of ham that may be called spam."""

    rate: float


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file that contains one secret, and the secret as it was when the configuration was read."""

    path: Path
    secret: SecretStr


def read_reject_threshold(value: object) -> float | FalsePositiveCost | FalsePositiveRate:
    """Read a P(spam), ``{false_positive_cost: C}`` or ``{max_false_positive_rate: R}``, R from 0.00006 to 0.5."""
    if isinstance(value, FalsePositiveCost | FalsePositiveRate):
        return value
    if isinstance(value, dict) and len(value) == 1:
        name, number = next(iter(value.items()))
        if name == "false_positive_cost" and _is_number(number) and 0 < number <= MAX_FALSE_POSITIVE_COST:
            return FalsePositiveCost(float(number))
        if (
            name == "max_false_positive_rate"
            and _is_number(number)
            and MIN_FALSE_POSITIVE_RATE <= number <= MAX_FALSE_POSITIVE_RATE
        ):
            return FalsePositiveRate(float(number))
    elif _is_number(value) and 0 < value <= 1:  # type: ignore[operator]  # a number
        return float(value)  # type: ignore[arg-type]
    raise ValueError(_ALLOWED_REJECT)


def read_until_promised(value: object) -> float | str:
    """Read ``unsure``, or a P(spam) between 0 and 1."""
    if value == "unsure":
        return "unsure"
    if _is_number(value) and 0 < value < 1:  # type: ignore[operator]  # a number
        return float(value)  # type: ignore[arg-type]
    raise ValueError("must be unsure, or a number between 0 and 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_next_hop(value: object) -> MaildirNextHopSetting | ServerNextHopSetting:
    """Read a Maildir, or a server as ``PROTOCOL://HOST:PORT`` or ``PROTOCOL:unix:/PATH``."""
    if isinstance(value, MaildirNextHopSetting | ServerNextHopSetting):
        return value
    text = value if isinstance(value, str) else ""
    kind, _, rest = text.partition(":")
    if text == "maildir":
        return MaildirNextHopSetting()
    if kind == "maildir" and rest:
        return MaildirNextHopSetting(read_path(rest))
    if kind in {"smtp", "smtps", "lmtp"} and rest.startswith("//"):
        address = _server_address(rest.removeprefix("//"))
        if kind == "lmtp":
            require_port_for_lmtp(address)
        return ServerNextHopSetting(kind, address)
    if kind in {"smtp", "lmtp"} and rest.startswith("unix:"):
        return ServerNextHopSetting(kind, read_listen_address(rest))
    raise ValueError(_ALLOWED_NEXT_HOP)


def require_port_for_lmtp(address: TcpAddress) -> None:
    """Raise ValueError for port 25: a client there expects SMTP, and LMTP must not be there (RFC 2033 5)."""
    if address.port == _SMTP_PORT:
        raise ValueError(f"must have another port for LMTP than {_SMTP_PORT}, which is for SMTP alone")


def _server_address(text: str) -> TcpAddress:
    try:
        address = read_address(text)
    except ValueError:
        raise ValueError(_ALLOWED_NEXT_HOP) from None
    if address.port == 0:
        raise ValueError(f"{_ALLOWED_NEXT_HOP}, the port from 1 to 65535")
    return address


def read_tls_mode(value: object) -> str:
    """Read ``off``, ``may``, ``encrypt`` or ``verify``. Without quotes ``off`` is a boolean in YAML."""
    if value is False:
        return "off"
    if isinstance(value, str) and value in {"off", "may", "encrypt", "verify"}:
        return value
    raise ValueError("must be off, may, encrypt or verify")


def read_listener_tls_mode(value: object) -> str:
    """Read ``off``, ``may``, ``require`` or ``implicit``. Without quotes ``off`` is a boolean in YAML."""
    if value is False:
        return "off"
    if isinstance(value, str) and value in {"off", "may", "require", "implicit"}:
        return value
    raise ValueError("must be off, may, require or implicit")


def read_secret_file(value: object) -> SecretFile:
    """Read the path of a file that contains one secret. The line end after the secret is no part of it."""
    if isinstance(value, SecretFile):
        return value
    path = read_path(value)
    secret = read_text_file(path, MAX_SECRET_BYTES).rstrip("\r\n")
    if not secret.strip():
        raise ValueError("must be a file with a secret in it (it is empty)")
    return SecretFile(path, SecretStr(secret))


def read_ca_file(value: object) -> Path:
    """Read the path of a file with certificates (PEM)."""
    import ssl  # noqa: PLC0415 - commands start without it, and few files name a certificate

    path = read_path(value)
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ValueError(f"must be a readable file with certificates in PEM ({error.strerror})") from None
    return path


def read_authserv_id(value: object) -> str:
    """Read the identifier of a server in Authentication-Results (RFC 8601, section 2.5), in lower case."""
    if not isinstance(value, str) or _AUTHSERV_ID.fullmatch(value) is None:
        raise ValueError("must be the name that a server writes first in Authentication-Results: mx.example.org")
    return value.lower()


def read_system_user(value: object) -> str:
    """Read the name of a user of this machine, or its number; whether there is one is not looked up."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if not isinstance(value, str) or not _SYSTEM_USER.fullmatch(value):
        raise ValueError("must be the name or the number of a user of this machine, such as vmail")
    return value


def read_network(value: object) -> Network:
    """Read an address or a network such as ``10.0.0.0/8`` or ``::1/128``."""
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    # ip_network also reads whole numbers as addresses, which nobody means in a file.
    text = value if isinstance(value, str) else ""
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError("must be a network such as 10.0.0.0/8 or ::1/128") from None
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(f"must be a network without host bits, such as {network}") from None


def read_mail_address(value: object) -> str:
    """Read a mail address such as ``spam@example.org``, without display name and angle brackets."""
    if not isinstance(value, str) or _MAIL_ADDRESS.fullmatch(value) is None:
        raise ValueError("must be a mail address such as spam@example.org")
    return value


def read_action(value: object) -> Action:
    """Read ``pass``, ``quarantine``, ``redirect:ADDRESS``, ``reject`` or ``defer``."""
    return value if isinstance(value, Action) else Action.parse(value if isinstance(value, str) else "")


def read_address_pattern(value: object) -> AddressPattern:
    """Read a pattern of up to 320 characters that an address can match, such as ``*@example.org``."""
    pattern = (
        value if isinstance(value, AddressPattern) else AddressPattern(value if isinstance(value, str) else "")
    )
    if not pattern.matches_any_address:
        raise ValueError("must be a pattern that an address can match, such as *@example.org")
    return pattern


def read_field_name(value: object) -> str:
    """Read the name of a header field that no mail server acts on, of at most 60 letters, digits and hyphens."""
    return require_own_name(value if isinstance(value, str) else "")


def read_field_value(value: object) -> str:
    """Read one line of text with the placeholders of a field's value: ``{verdict}`` and others."""
    if not isinstance(value, str):
        raise ValueError("must be text (true, YES and numbers need quotes)")  # noqa: TRY004 - a problem of the file
    return require_field_value(value)


def read_subject_tag(value: object) -> str:
    """Read a text of at most 44 bytes without line ends, such as ``"[SPAM] "``; one space always follows it."""
    tag = value.strip() if isinstance(value, str) else ""
    fits = 0 < len(tag.encode("utf-8", "replace")) <= MAX_TAG_BYTES
    if not fits or not tag.isprintable() or "=?" in tag:
        raise ValueError(f'must be printable text of at most {MAX_TAG_BYTES} bytes in UTF-8, such as "[SPAM] "')
    return tag


def read_workers(value: object) -> int | str:
    """Read ``auto``, or a whole number from 1 to 128."""
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WORKERS):
        return value
    raise ValueError(f"must be auto, or a whole number from 1 to {MAX_WORKERS}")


def read_model_name(value: object) -> str:
    """Read a text of the characters ``a-z0-9._-``. It becomes a part of the Redis keys."""
    if not isinstance(value, str) or _MODEL_NAME.fullmatch(value) is None:
        raise ValueError("must be text of the characters a-z 0-9 . _ - (a number needs quotes)")
    return value


def require_usable_certificate(certificate: Path, key: Path | None, setting: str) -> None:
    """Raise ValueError unless the files have a certificate and its key; ``setting`` names that of the certificate.

    Without a key file the file of the certificate has the key too.
    """
    import ssl  # noqa: PLC0415 - commands start without it, and few files name a certificate

    try:
        ssl.create_default_context().load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError):
        raise ValueError(f"must be the key of the certificate in {setting}, both in readable PEM files") from None


FilePath = Annotated[Path, BeforeValidator(read_path)]
CaFile = Annotated[Path, BeforeValidator(read_ca_file)]
PasswordFile = Annotated[SecretFile, BeforeValidator(read_secret_file)]
Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
ByteCount = Annotated[int, Field(ge=1, le=1 << 40)]
PositiveNumber = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]  # 1e-320 gives infinite scores
Probability = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Section(BaseModel):
    """A mapping of the file. Its problems are raised as pydantic's ValidationError, without the input."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        hide_input_in_errors=True,
        defer_build=True,  # the validator of a whole configuration has those of its sections: each is built once
    )

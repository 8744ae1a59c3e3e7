"""Readers for the values of a configuration file: paths, addresses, networks, secrets; and what a section is.

Rules: each reader takes the value that YAML gave, or one that is already of its type. A refusal is a ValueError
whose text says what is allowed ("must be ...") and repeats neither the value nor a secret, nor the content of a
file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, Strict

from nbstream.addresses import DEFAULT_SOCKET_MODE, TcpAddress, UnixAddress


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


def _is_ip(text: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _is_host(parts: re.Match[str]) -> bool:
    if parts["v6"]:
        return _is_ip(parts["v6"], IPv6Address)
    # A name whose last label is a number can only be a mistyped IPv4 address (RFC 3696 2).
    if parts["host"].rpartition(".")[2].isdecimal():
        return _is_ip(parts["host"], IPv4Address)
    return _HOST.fullmatch(parts["host"]) is not None


def read_address(value: object) -> TcpAddress:
    """Read ``HOST:PORT`` or ``[IPV6]:PORT``."""
    if isinstance(value, TcpAddress):
        return value
    parts = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if parts is None or int(parts["port"]) > 65535 or not _is_host(parts):
        raise ValueError(_ALLOWED_ADDRESS)
    return TcpAddress(parts["v6"] or parts["host"], int(parts["port"]))


def read_listen_address(value: object) -> TcpAddress | UnixAddress:
    """Read ``HOST:PORT``, ``[IPV6]:PORT`` or ``unix:/PATH``.

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
    """Read a host name such as ``mx.example.org``."""
    if not isinstance(value, str) or _HOST.fullmatch(value) is None:
        raise ValueError("must be a host name such as mx.example.org")
    return value


MAX_SECRET_BYTES = 4096
_SMTP_PORT = 25

Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file that contains one secret, and the secret as it was when the configuration was read."""

    path: Path
    secret: SecretStr


def require_port_for_lmtp(address: TcpAddress) -> None:
    """Raise ValueError for port 25: a client there expects SMTP, and LMTP must not be there (RFC 2033 5)."""
    if address.port == _SMTP_PORT:
        raise ValueError(f"must have another port for LMTP than {_SMTP_PORT}, which is for SMTP alone")


def read_secret_file(value: object) -> SecretFile:
    """Read a file with one secret. The line end after the secret is no part of it."""
    if isinstance(value, SecretFile):
        return value
    path = read_path(value)
    secret = read_text_file(path, MAX_SECRET_BYTES).rstrip("\r\n")
    if not secret.strip():
        raise ValueError("must be a file with a secret in it (it is empty)")
    return SecretFile(path, SecretStr(secret))


def read_ca_file(value: object) -> Path:
    """Read a file with certificates (PEM)."""
    import ssl  # noqa: PLC0415 - commands start without it, and few files name a certificate

    path = read_path(value)
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ValueError(f"must be a readable file with certificates in PEM ({error.strerror})") from None
    return path


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


FilePath = Annotated[Path, BeforeValidator(read_path)]
CaFile = Annotated[Path, BeforeValidator(read_ca_file)]
PasswordFile = Annotated[SecretFile, BeforeValidator(read_secret_file)]
Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
ByteCount = Annotated[int, Field(ge=1, le=1 << 40)]
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


TcpAddressSetting = Annotated[TcpAddress, BeforeValidator(read_address)]


TcpOrUnixAddressSetting = Annotated[TcpAddress | UnixAddress, BeforeValidator(read_listen_address)]


UnixAddressSetting = Annotated[UnixAddress, BeforeValidator(read_unix_address)]


Networks = Annotated[tuple[Annotated[Network, BeforeValidator(read_network)], ...], Strict(False)]


def require_usable_certificate(certificate: Path, key: Path | None, setting: str) -> None:
    """Raise ValueError unless the files have a certificate and its key; ``setting`` names that of the certificate.

    Without a key file the file of the certificate has the key too.
    """
    import ssl  # noqa: PLC0415 - commands start without it, and few files name a certificate

    try:
        ssl.create_default_context().load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError):
        raise ValueError(f"must be the key of the certificate in {setting}, both in readable PEM files") from None


_AUTHSERV_ID = re.compile(r"[^\s\x00-\x1f\x7f;()\"\\=/@,<>\[\]]{1,253}")


def read_authserv_id(value: object) -> str:
    """Read the identifier of a server in Authentication-Results (RFC 8601), in lower case."""
    if not isinstance(value, str) or _AUTHSERV_ID.fullmatch(value) is None:
        raise ValueError("must be the name that a server writes first in Authentication-Results: mx.example.org")
    return value.lower()


AuthservIds = Annotated[
    tuple[Annotated[str, BeforeValidator(read_authserv_id)], ...], Strict(False), Field(max_length=100)
]

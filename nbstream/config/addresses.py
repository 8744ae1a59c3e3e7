"""Readers for the addresses of listeners in a configuration file.

Rules: as in ``values``, each reader takes the value that YAML gave, or one that is already of its type. A refusal
is a ValueError whose text says what is allowed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from nbstream.addresses import DEFAULT_SOCKET_MODE, TcpAddress, UnixAddress
from nbstream.config.paths import read_path

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

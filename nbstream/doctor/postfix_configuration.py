"""What ``postconf`` prints, read into data. Pure.

Rules: ``main`` is the output of ``postconf -nx`` (what main.cf sets, with its ``$names`` expanded), ``services``
that of ``postconf -M`` (the services of master.cf) and ``options`` that of ``postconf -P`` (what master.cf sets
for each service). What is not set has Postfix's default, as far as it is asked for here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from nbstream.addresses import UnixAddress

if TYPE_CHECKING:
    from nbstream.addresses import ListenAddress


# Where programs listen, in one form: so that what two configurations say can be compared. Pure.

LOOPBACK = "loopback"
"""The host of all addresses by which this machine reaches itself."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port, or the path of a unix socket with port 0."""

    host_or_path: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host_or_path}:{self.port}" if self.port else f"unix:{self.host_or_path}"


def is_loopback(host: str) -> bool:
    """Whether the host, which may be in brackets, is this machine's address for itself alone."""
    name = host.strip("[]").lower()
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def tcp_endpoint(host: str, port: int) -> Endpoint:
    """Return the endpoint of a host, which may be in brackets; without a host it is every address."""
    name = host.strip("[]").lower()
    is_local = name in {"", "0.0.0.0", "::"} or is_loopback(name)  # noqa: S104 - recognised here, not listened on
    return Endpoint(LOOPBACK if is_local else name, port)


def listener_endpoint(address: ListenAddress) -> Endpoint:
    """Return the endpoint at which a listener is reached from this machine."""
    if isinstance(address, UnixAddress):
        return Endpoint(str(address.path))
    return tcp_endpoint(address.host, address.port)


_DEFAULTS = {
    "cleanup_service_name": "cleanup",
    "enable_original_recipient": "yes",
    "mail_owner": "postfix",
    "message_size_limit": "10240000",
    "milter_default_action": "tempfail",
    "queue_directory": "/var/spool/postfix",
    "smtp_line_length_limit": "998",
    "lmtp_line_length_limit": "998",
    "mydestination": "$myhostname, localhost.$mydomain, localhost",
    "smtpd_relay_restrictions": "permit_mynetworks, permit_sasl_authenticated, defer_unauth_destination",
}
"""Of Postfix 3.0 to 3.10, postconf(5)."""
_PORTS = {"smtp": 25, "smtps": 465, "submissions": 465, "submission": 587}
_WORD = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}|[^\s,{}]+(?:\{(?:[^{}]|\{[^{}]*\})*\})?")


@dataclass(frozen=True, slots=True, eq=False)
class PostfixService:
    """A service of master.cf: its name, its type such as ``inet``, its program, and what it sets for itself."""

    name: str
    type: str
    program: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.name}/{self.type}"

    @property
    def is_of_this_machine(self) -> bool:
        """Whether it listens at an address that only this machine reaches."""
        host, _, _ = self.name.rpartition(":")
        return bool(host) and self.endpoint is not None and is_loopback(host)

    @property
    def endpoint(self) -> Endpoint | None:
        """Where it listens on TCP; None for another one, and for a port that has a name of its own."""
        host, _, port = self.name.rpartition(":")
        number = _PORTS.get(port, int(port) if port.isdecimal() else 0)
        return tcp_endpoint(host, number) if self.type == "inet" and number else None


@dataclass(frozen=True, slots=True)
class PostfixConfiguration:
    """What main.cf sets, and the services of master.cf."""

    parameters: Mapping[str, str]
    services: tuple[PostfixService, ...]

    @property
    def smtp_servers(self) -> tuple[PostfixService, ...]:
        """The services that take mail over SMTP."""
        return tuple(service for service in self.services if service.program == "smtpd")

    @property
    def cleanups(self) -> tuple[PostfixService, ...]:
        """The services that put mail into the queue."""
        return tuple(service for service in self.services if service.program == "cleanup")

    def value(self, name: str, service: PostfixService | None = None) -> str:
        """Return the value of a parameter, for a service where one is given; empty where nothing sets it."""
        if service is not None and name in service.options:
            return service.options[name]
        return self.parameters.get(name, _DEFAULTS.get(name, ""))

    def words(self, name: str, service: PostfixService | None = None) -> list[str]:
        """Return the words of a parameter that is a list; what stands in braces is one word."""
        return split_words(self.value(name, service))


def split_words(text: str) -> list[str]:
    """Return the words between spaces and commas; what stands in braces is one word, or belongs to its word."""
    return _WORD.findall(text)


def parse_postfix(main: str, services: str, options: str) -> PostfixConfiguration:
    """Return what the three outputs say; a line of another form is left out."""
    parameters = dict(_settings(main))
    by_service: dict[str, dict[str, str]] = {}
    for name, value in _settings(options):
        service, _, parameter = name.rpartition("/")
        by_service.setdefault(service, {})[parameter] = value
    return PostfixConfiguration(parameters, tuple(_services(services, by_service)))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator:
            yield name.strip(), value.strip()


def _services(text: str, options: Mapping[str, Mapping[str, str]]) -> Iterator[PostfixService]:
    for line in text.splitlines():
        fields = line.split(None, 8)  # name, type, private, unprivileged, chroot, wake-up, limit, program
        if len(fields) >= 8:
            name, kind, program = fields[0], fields[1], fields[7]
            yield PostfixService(name, kind, program, options.get(f"{name}/{kind}", {}))


def inline_values(text: str) -> list[str]:
    """Return the values of the ``inline:{...}`` tables in a parameter, such as transports."""
    tables = [word.removeprefix("inline:")[1:-1] for word in split_words(text) if word.startswith("inline:{")]
    entries = [entry.strip("{}") for table in tables for entry in split_words(table)]
    return [entry.partition("=")[2].strip() for entry in entries if "=" in entry]


def filter_endpoint(text: str, queue_directory: str) -> Endpoint | None:
    """Return where a value such as ``nbstream:[127.0.0.1]:10025`` or ``unix:private/filter`` leads, or None.

    Such are ``content_filter`` (transport and destination), ``smtpd_proxy_filter``, and each of ``smtpd_milters``.
    """
    words = split_words(text.strip().removeprefix("{").removesuffix("}"))
    if not words:
        return None
    rest = words[0]
    if (unix := re.fullmatch(r"(?:\w+:)?unix:(.+)", rest)) is not None:
        path = unix[1]
        return Endpoint(path if path.startswith("/") else f"{queue_directory}/{path}")
    tcp = re.fullmatch(r"(?:[\w.-]+:)*?(\[[^\]]*\]|[^:\[\]]*):([\w-]+)", rest)
    port = _PORTS.get(tcp[2], int(tcp[2]) if tcp[2].isdecimal() else 0) if tcp else 0
    return tcp_endpoint(tcp[1], port) if tcp and port else None

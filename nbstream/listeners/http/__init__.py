"""The HTTP listener: its own API, the API of rspamd, and the metrics.

Here are its settings, and how ``nbstream doctor`` asks it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationInfo, field_validator

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.findings import problem, warning
from nbstream.settings.values import (
    Networks,
    PasswordFile,
    SecretFile,
    Section,
    TcpAddressSetting,
    TcpOrUnixAddressSetting,
    read_network,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.findings import Finding
    from nbstream.server.probe import Conversation

DEGRADED = warning(
    "listener.{name}",
    "The daemon reports that {part} is degraded: {text}.",
    "See the finding about that component, or the daemon's log. The daemon recovers by itself.",
    repeats=("{part}",),
)
NOT_READY = problem(
    "listener.{name}",
    "The daemon reports that it is not ready for mail (/readyz).",
    "See what it reports as degraded, and its log.",
    repeats=("next_hop", "redis", "model"),
)


async def probe_http(conversation: Conversation) -> Sequence[Finding]:
    """Ask for ``/readyz``, and pass on what it says is degraded."""
    status, body = await _get(conversation, "/readyz")
    if status not in {200, 503}:
        return conversation.wrong("/readyz", f"status {status}")
    try:
        health = json.loads(body)
        is_ready, degraded = bool(health["ready"]), dict(health["degraded"])
    except (ValueError, TypeError, LookupError):
        return conversation.wrong("/readyz", body.decode("utf-8", "replace"))
    findings = conversation.works("/readyz") if is_ready else [NOT_READY(name=conversation.name)]
    return findings + [DEGRADED(name=conversation.name, part=part, text=text) for part, text in degraded.items()]


async def probe_metrics(conversation: Conversation) -> Sequence[Finding]:
    """Ask for ``/metrics``."""
    status, body = await _get(conversation, "/metrics")
    if status != 200 or b"nbstream_" not in body:
        return conversation.wrong("/metrics", f"status {status}")
    return conversation.works("/metrics")


async def _get(conversation: Conversation, path: str) -> tuple[int, bytes]:
    """Return the status and the body of a GET; 0 for what is no HTTP."""
    conversation.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await conversation.receive_all()).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    is_http = len(words) == 3 and words[0].startswith(b"HTTP/1.") and words[1].isdigit()
    return (int(words[1]), body) if is_http else (0, body)


class HttpListenerSettings(Section):
    """The HTTP listener. Other machines reach it only with a password.

    Where ``write_password_file`` is set, it is for teaching, and ``password_file`` is for all else. Peers in
    ``allow_from`` need neither.
    """

    password_file: PasswordFile | None = None
    """A file with the password of this listener (``Authorization: Bearer`` or ``Password:``), also for the
    page. It must be set if the listener can be reached from other machines.
    """

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 11334)
    """Where the listener accepts connections."""

    write_password_file: PasswordFile | None = None
    """A file with another password, which is needed to teach and may also read. Without it ``password_file`` is
    for both.
    """

    allow_from: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    """The networks whose peers need no password, unless a proxy names another client in ``X-Forwarded-For``. To
    teach over TCP without a password a peer must be in ``feedback.allow_from`` too.
    """

    @field_validator("listen")
    @classmethod
    def _password_beyond_loopback(
        cls, value: TcpAddress | UnixAddress, info: ValidationInfo
    ) -> TcpAddress | UnixAddress:
        # No entry means that password_file was refused itself: one problem, one line.
        if info.data.get("password_file", "refused") is None and not value.is_loopback:
            raise ValueError("must be a loopback address, or listeners.http.password_file must be set")
        return value

    @field_validator("write_password_file")
    @classmethod
    def _write_password_needs_password(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        # Without a password for reading, anybody could read from other machines.
        if value and info.data.get("password_file", "refused") is None:
            raise ValueError("needs listeners.http.password_file")
        return value


class MetricsListenerSettings(Section):
    """A listener for ``/metrics`` alone, for a scraper on another machine."""

    listen: TcpAddressSetting
    """Where the listener accepts connections."""

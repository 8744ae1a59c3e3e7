"""The HTTP listener: its own API, the API of rspamd, and the metrics. Here is how ``nbstream doctor`` asks it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nbstream.findings import problem, warning

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

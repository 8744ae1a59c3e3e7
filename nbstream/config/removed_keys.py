"""The keys that went, with what holds instead: a file with one of them is refused by a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.config.document import KeyPath

_REMOVED = {
    "model.event_models": (
        "there is one event model, the multinomial with the smoothing that was best on real mail: remove the "
        "key. A model that was taught with others keeps its tokens, and is scored by them"
    ),
    "model.prior_messages": "the prior adds one message to each class: remove the key",
    "listeners.smtp.hostname": "hostname at the top of the file holds for all listeners",
    "listeners.lmtp.hostname": "hostname at the top of the file holds for all listeners",
    "listeners.smtp.max_recipients": "a message may have 1,000 recipients: remove the key",
    "listeners.lmtp.max_recipients": "a message may have 1,000 recipients: remove the key",
    "listeners.stream.max_message_bytes": "an entry may have 10 MiB, which Redis has in memory: remove the key",
    "listeners.stream.max_bytes_in_flight": "limits.max_bytes_in_flight holds for all listeners",
    "listeners.stream.max_in_flight": "a worker has 16 entries in hand at once: remove the key",
    "listeners.stream.tries": "an entry that fails three times is moved to the dead ones: remove the key",
    "listeners.stream.answers": "about 100,000 answers are kept: remove the key",
    "listeners.stream.dead": "about 1,000 dead entries are kept: remove the key",
    "relay.max_connections": "limits.max_connections bounds the connections to the next hop, too",
    "memory.first_scores": "50,000 labelled messages of each class have their first score kept: remove the key",
    "limits.max_tokens": "2,000 tokens of a message are scored and learned: remove the key",
    "limits.max_parts": "200 MIME parts of a message are looked at: remove the key",
    "limits.max_depth": "20 levels of MIME parts are looked at: remove the key",
    "autolearn.lead": "one class may be 20 messages ahead of the other: remove the key",
    "model.learning_weights": (
        "a lesson always weighs more, the more wrong the model was about its message: remove the key"
    ),
}

_SOCKET = 'its value stands behind the address now: listen: "unix:/PATH mode=0660 group=NAME"'
_ONE_LIMIT = "limits.{} holds for all listeners"
_TIMES = "the time of a client is fixed: remove the key"
for _listener in ("smtp", "lmtp", "http", "spamd", "milter", "dovecot"):
    _REMOVED |= {
        f"listeners.{_listener}.socket_mode": _SOCKET,
        f"listeners.{_listener}.socket_group": _SOCKET,
        **{
            f"listeners.{_listener}.{key}": _ONE_LIMIT.format(key)
            for key in ("max_message_bytes", "max_connections", "max_bytes_in_flight")
        },
        **{
            f"listeners.{_listener}.{key}": _TIMES
            for key in ("idle_timeout_seconds", "message_timeout_seconds", "request_timeout_seconds")
        },
    }


def removed_key_text(key: KeyPath) -> str | None:
    """Return what to say of a key that is not known any more; None for one that never was."""
    return _REMOVED.get(".".join(part for part in key if isinstance(part, str)))

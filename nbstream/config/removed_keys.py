"""The keys that went, with what holds instead: a file with one of them is refused by a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.config.problems import KeyPath

_REMOVED = {
    "model.event_models": (
        "there is one event model, the multinomial with the smoothing that was best on real mail: remove the "
        "key. A model that was taught with others keeps its tokens, and is scored by them"
    ),
    "model.prior_messages": "the prior adds one message to each class: remove the key",
    "model.learning_weights": (
        "a lesson always weighs more, the more wrong the model was about its message: remove the key"
    ),
}


def removed_key_text(key: KeyPath) -> str | None:
    """Return what to say of a key that is not known any more; None for one that never was."""
    return _REMOVED.get(".".join(part for part in key if isinstance(part, str)))

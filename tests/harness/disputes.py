"""A message whose verdict contradicts its label again, because of what was learned after its lesson."""

from __future__ import annotations

from nbstream.filter import Filter
from nbstream.mail.message import Message
from tests.harness.samples import samples

DISPUTED, *SIMILAR = (Message.parse(raw) for label, raw in samples(90, seed=8) if label == "spam")
"""A message that looks like spam, and such messages that are spam."""


async def teach_dispute(
    spam_filter: Filter, *, source: str = "smtp", actor: str = "ann", similar: int = 20
) -> None:
    """Teach ``DISPUTED`` as ham, and then as spam as many messages that are like it."""
    for label, raw in samples(40):
        await spam_filter.learn(Message.parse(raw), label, "test")
    await spam_filter.learn(DISPUTED, "ham", source, actor)
    for message in SIMILAR[:similar]:
        await spam_filter.learn(message, "spam", "test")

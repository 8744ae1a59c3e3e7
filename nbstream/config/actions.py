"""The settings of actions and of the quarantine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from nbstream.config.section import FilePath, Section
from nbstream.config.values import read_action
from nbstream.policy.actions import Action, ActionKind

MessageAction = Annotated[Action, BeforeValidator(read_action)]


class ActionsSettings(Section):
    """What happens to a message by its verdict."""

    ham: MessageAction = Action(ActionKind.PASS)
    """The action for a message whose verdict is ham."""

    unsure: MessageAction = Action(ActionKind.PASS)
    """The action for a message whose verdict is unsure."""

    spam: MessageAction = Action(ActionKind.PASS)
    """The action for a message whose verdict is spam."""

    reject: MessageAction = Action(ActionKind.REJECT)
    """The action for a message whose verdict is reject, which only ``verdict.reject`` can give."""


class QuarantineSettings(Section):
    """Where suspicious messages wait, and for how long."""

    path: FilePath | None = None
    """The Maildir of the quarantine, readable for the daemon's user alone. ``null`` is the folder ``Quarantine``
    in ``state_dir``.
    """

    days: Annotated[int, Field(ge=1, le=36500)] | None = 30
    """A message is removed from the quarantine after this many days. ``null`` keeps it for ever."""

    def folder(self, state_dir: Path) -> Path:
        """Return the Maildir of the quarantine. By default it is in ``state_dir``."""
        return self.path or state_dir / "Quarantine"

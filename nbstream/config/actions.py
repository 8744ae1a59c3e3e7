"""The settings of what happens to a message."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from nbstream.config.section import FilePath, Section
from nbstream.config.values import read_action
from nbstream.policy.actions import Action, Kind

MessageAction = Annotated[Action, BeforeValidator(read_action)]


class Actions(Section):
    """What happens to a message by its verdict."""

    ham: MessageAction = Action(Kind.PASS)
    unsure: MessageAction = Action(Kind.PASS)
    spam: MessageAction = Action(Kind.PASS)
    reject: MessageAction = Action(Kind.REJECT)


class Quarantine(Section):
    """Where messages wait, and how long; no path means the folder in the state folder, no days for ever."""

    path: FilePath | None = None
    days: Annotated[int, Field(ge=1, le=36500)] | None = 30

    def folder(self, state_dir: Path) -> Path:
        """The Maildir, where the state folder is that."""
        return self.path or state_dir / "Quarantine"

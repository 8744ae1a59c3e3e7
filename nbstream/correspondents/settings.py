"""The settings of what is known of correspondents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nbstream.settings.values import FilePath, Section

Days = Annotated[int, Field(ge=1, le=3650)]


class CorrespondentsSettings(Section):
    """For how long the daemon knows whom its users wrote to."""

    answer_days: Days = 90
    """For how long an answer is known as one."""

    sender_days: Days = 365
    """For how long a sender is known after a user last wrote to them."""

    key_file: FilePath | None = None
    """The key of the hashes, made where it is missing; ``null`` is ``correspondents.key`` in ``state_dir``.
    Machines that share a model need copies.
    """

"""The settings of the stream listener."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nbstream.settings.values import Section


class StreamListenerSettings(Section):
    """The listener for programs that use Redis. It has no address. A message has at most 10 MiB."""

    claim_seconds: Annotated[float, Field(ge=1, le=86400, allow_inf_nan=False)] = 60
    """Another worker takes over the entries of a worker that gave no sign of life for this long."""

"""The settings of what is known of correspondents."""

from __future__ import annotations

from nbstream.settings.values import Section


class CorrespondentsSettings(Section):
    """Whether the daemon knows whom its users wrote to: ``correspondents: {}`` turns it on."""

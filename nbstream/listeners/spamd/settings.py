"""The settings of the spamd listener."""

from __future__ import annotations

from nbstream.addresses import TcpAddress
from nbstream.settings.values import Section, TcpOrUnixAddressSetting


class SpamdListenerSettings(Section):
    """The listener for clients of SpamAssassin's server."""

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 1783)
    """Where the listener accepts connections."""

"""The settings of the milter listener."""

from __future__ import annotations

from nbstream.addresses import TcpAddress
from nbstream.settings.values import Section, TcpOrUnixAddressSetting


class MilterListenerSettings(Section):
    """The listener for mail servers that ask a milter about each message.

    The mail server edits the header, refuses or holds the message itself. It connects to nbstream; no next hop is
    needed. A message larger than ``limits.max_message_bytes`` is judged by its beginning. There is room for 500
    connections at least, because each SMTP client of the mail server has one of its own.
    """

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 11332)
    """Where the listener accepts connections."""

"""The only file that touches private parts of aiosmtplib: what was received beyond a reply, and flow control.

What is touched, and why (aiosmtplib 5):

- ``SMTPProtocol._buffer`` holds the bytes that came and belong to no reply yet. A server that sends two replies to
  one command leaves the second one there, and the library would take it for the reply to the next command. There
  is no public way to see that.
- ``SMTPProtocol._drain_helper`` waits until the transport takes more. The library itself writes a message at once.

``NextHopConnection`` also relies on public calls of the protocol: ``write`` sends at once, ``read_response`` gives
the next reply, and what comes while nobody reads is dropped.

tests/relay/test_aiosmtplib_seam.py fails when one of them is missing or does something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiosmtplib.protocol import SMTPProtocol


def has_unread_bytes(protocol: SMTPProtocol) -> bool:
    """Return whether more has come than the replies that were read."""
    return bool(protocol._buffer)


async def wait_for_room(protocol: SMTPProtocol) -> None:
    """Return when little of what was written still waits to be sent; raises ``OSError`` once it is lost."""
    await protocol._drain_helper()

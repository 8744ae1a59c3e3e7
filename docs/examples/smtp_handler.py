"""An SMTP server of aiosmtpd that refuses spam, and learns what is sent to spam@ and ham@ from this machine.

python smtp_handler.py 10025
"""

import asyncio
import sys

from aiosmtpd.controller import UnthreadedController
from aiosmtpd.smtp import SMTP, Envelope, Session

from nbstream import SpamFilter


class Handler:
    """Answers DATA by the verdict."""

    def __init__(self, spam_filter: SpamFilter) -> None:
        self.spam_filter = spam_filter

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Check the message, or learn it."""
        raw = envelope.content
        assert isinstance(raw, bytes)
        is_from_here = session.peer is not None and session.peer[0] in ("127.0.0.1", "::1")
        for label in ("spam", "ham"):
            if is_from_here and envelope.rcpt_tos == [f"{label}@localhost"]:
                lesson = await asyncio.to_thread(self.spam_filter.learn, raw, label)
                return f"250 {lesson.outcome}"
        result = await asyncio.to_thread(self.spam_filter.check, raw)
        return "550 5.7.1 this looks like spam" if result.verdict == "spam" else "250 accepted"


async def main(port: int) -> None:
    """Serve until the process is ended."""
    with SpamFilter.open("mail.nbs") as spam_filter:
        controller = UnthreadedController(Handler(spam_filter), hostname="127.0.0.1", port=port)
        server = await asyncio.get_running_loop().create_server(controller.factory, host="127.0.0.1", port=port)
        print("ready at port", server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

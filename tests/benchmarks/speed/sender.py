"""Sends one message by SMTP when it gets a line on its standard input, and prints the seconds that it took.

    python -m tests.benchmarks.speed.sender PORT FILE

A process of its own, so that sending many bytes does not hold up whoever measures.
"""

from __future__ import annotations

import smtplib
import sys
import time
from pathlib import Path

from tests.benchmarks.speed.clients import Smtp


def main() -> None:
    """Connect, wait for the line, send."""
    request = Smtp.request(Path(sys.argv[2]).read_bytes())
    with smtplib.SMTP("127.0.0.1", int(sys.argv[1]), timeout=60) as client:
        client.ehlo("bench.example")
        print("connected", flush=True)
        sys.stdin.readline()
        begun = time.perf_counter()
        client.mail("large@bench.example")
        client.rcpt("b@bench.example")
        client.docmd("DATA")
        client.send(request)
        code, answer = client.getreply()
        print(f"{code} {time.perf_counter() - begun}", flush=True)
        assert code == 250, answer


if __name__ == "__main__":
    main()

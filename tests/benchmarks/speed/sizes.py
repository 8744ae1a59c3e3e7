"""The CPU time of a check by the size of the message, and how long small messages wait beside one of 20 MB.

The messages are made up: words drawn from a vocabulary as uneven as a real one's, as text, or a short text with
an attachment. CPU time of the check in this process, bare. The wait is that of an SMTP client that sends small
messages one after the other while another process sends the large one to the same listener.
"""

from __future__ import annotations

import asyncio
import base64
import random
import smtplib
import statistics
import subprocess
import sys
import threading
import time
from itertools import accumulate
from pathlib import Path

import uvloop

from nbstream.config import Settings
from nbstream.engine.choice import choose_engine
from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from tests.benchmarks.speed.bench import Bench
from tests.benchmarks.speed.daemons import InProcessDaemon, in_process_daemon, taught
from tests.benchmarks.speed.listeners import relaying
from tests.benchmarks.speed.plan import CPU_MILLISECONDS, LARGE, LONGEST_WAIT, MILLISECONDS, SIZES
from tests.benchmarks.speed.processes import ROOT, CannotMeasure

_WORDS = 20_000
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
_DRAWN = 2_000_000  # then it repeats
_SMALL = 4_000
_ATTACHED = 100_000
_BEFORE_SECONDS = 2.0
_AFTER_SECONDS = 0.5
_PAUSE_SECONDS = 0.002
_LARGE_SECONDS = 60.0


def run(bench: Bench) -> None:
    """Measure first the checks, then the waits."""
    uvloop.run(_checks(bench, taught(bench)))
    waits(bench)


async def _checks(bench: Bench, state: Path) -> None:
    # Made first, because it takes seconds, and the mirror would regard Redis as unavailable.
    raws = {f"{name}, text": text(size) for name, size in SIZES.items()}
    raws |= {f"{name}, attachment": attachment(size) for name, size in SIZES.items() if size >= _ATTACHED}
    async with in_process_daemon(state, choose_engine(Settings().engine)) as ours:
        for name, raw in raws.items():
            values = [await _milliseconds(ours, ours.bare, raw) for _ in range(bench.scale.rounds)]
            bench.record(f"check of {name}", CPU_MILLISECONDS, *values)


async def _milliseconds(ours: InProcessDaemon, spam_filter: Filter, raw: bytes) -> float:
    """Return the CPU milliseconds of one check, as the mean of several."""
    limits, count = MessageLimits(ours.settings.limits.look_bytes), max(1, min(200, 400_000 // len(raw)))
    started = time.process_time()
    for _ in range(count):
        await spam_filter.check(Message(raw, limits))
        await asyncio.sleep(0)  # lets the mirror run, or it regards Redis as unavailable
    return (time.process_time() - started) * 1000 / count


def text(size: int, seed: int = 1) -> bytes:
    """Return a message of about ``size`` bytes of words and links, with CRLF line ends."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(_LETTERS, k=draw.randint(2, 10))) for _ in range(_WORDS)]
    cumulative = list(accumulate(1 / rank for rank in range(1, _WORDS + 1)))  # Zipf's law
    lines, length = [], 0
    while length < min(size, _DRAWN):
        line = " ".join(draw.choices(words, cum_weights=cumulative, k=10))
        if draw.random() < 0.05:
            line = f"https://{draw.choice(words)}.example/{draw.choice(words)}"
        lines.append(line)
        length += len(line) + 2
    head = (
        "From: Ann <ann@example.org>\r\nTo: ben@example.org\r\nSubject: made up\r\nDate: Fri, 6 Nov 2026 10:00:00"
        f" +0000\r\nMessage-ID: <{size}.{seed}@example.org>\r\nMIME-Version: 1.0\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n\r\n"
    )
    body = ("\r\n".join(lines) + "\r\n") * (size // _DRAWN + 1)
    return (head + body).encode()[: size - 2] + b"\r\n"


def attachment(size: int, seed: int = 1) -> bytes:
    """Return a short text with an attachment of random bytes, about ``size`` bytes in all."""
    small = text(_SMALL, seed)
    head, _, body = small.partition(b"\r\n\r\n")
    data = base64.encodebytes(random.Random(seed).randbytes(size * 54 // 74)).replace(b"\n", b"\r\n")
    fields = head.replace(b"text/plain; charset=utf-8", b'multipart/mixed; boundary="b"')
    parts = b"--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + body
    file = b"--b\r\nContent-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n" + data
    return fields + b"\r\n\r\n" + parts + file + b"--b--\r\n"


def waits(bench: Bench) -> None:
    """Measure small messages alone, and beside large ones of two kinds."""
    size = SIZES[LARGE]
    with relaying(bench) as (ours, _):
        port = int(ours.address("smtp").rpartition(":")[2])
        file = bench.new_folder("large") / "message"
        for kind, make in {"text": text, "attachment": attachment}.items():
            file.write_bytes(make(size))
            alone, longest, took = [], [], []
            for _ in range(bench.scale.rounds):
                before, beside, seconds = _wait(port, file)
                alone.append(1000 * statistics.median(before))
                longest.append(1000 * (max(beside) - statistics.median(before)))
                took.append(1000 * seconds)
            bench.record(f"small message, alone ({kind})", MILLISECONDS, *alone)
            bench.record(f"{LARGE} of {kind} through the SMTP listener", MILLISECONDS, *took)
            bench.record(f"{LONGEST_WAIT}{kind}", MILLISECONDS, *longest)


def _wait(port: int, large: Path) -> tuple[list[float], list[float], float]:
    """Return the waits of small messages before and beside the large one, and the seconds of the large one."""
    intervals: list[tuple[float, float]] = []
    ended = threading.Event()
    small = text(_SMALL)

    def send_small() -> None:
        with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
            client.ehlo("bench.example")
            while not ended.is_set():
                begun = time.perf_counter()
                client.sendmail("a@bench.example", ["b@bench.example"], small)
                intervals.append((begun, time.perf_counter()))
                time.sleep(_PAUSE_SECONDS)

    words = [sys.executable, "-m", "tests.benchmarks.speed.sender", str(port), str(large)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as sender:
        assert sender.stdin
        assert sender.stdout
        sender.stdout.readline()
        clock = threading.Thread(target=send_small)
        clock.start()
        try:
            time.sleep(_BEFORE_SECONDS)
            begun = time.perf_counter()
            text_out = sender.communicate("now\n", timeout=_LARGE_SECONDS)[0]
            done = time.perf_counter()
            time.sleep(_AFTER_SECONDS)
        finally:
            ended.set()
            clock.join()
    if sender.returncode:
        raise CannotMeasure(f"a large message was not taken: {text_out.strip()}")
    before = [end - start for start, end in intervals if end < begun]
    beside = [end - start for start, end in intervals if end >= begun and start <= done]
    return before, beside, float(text_out.split()[1])

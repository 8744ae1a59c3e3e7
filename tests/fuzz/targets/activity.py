"""Activity and what processes say of themselves, as Redis has it: refused, or shown by the view now.

The fields and values of the hash of counts have a NUL between them; what follows a line feed are processes.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from nbstream.errors import StoreUnavailable
from nbstream.page.now_view import view_values
from nbstream.page.rendering import PageRenderer
from nbstream.page.requests import Page
from nbstream.store.activity import ActivitySpan, parse_counts, sum_activity, unpack_process
from nbstream.store.redis_errors import readable_replies
from tests.fuzz.page_elements import assert_own_elements
from tests.fuzz.target import FuzzTarget
from tests.page.now_sources import make_now

_NOW = 1_800_000_000.0
_renderer = PageRenderer("1")
_runner = asyncio.Runner()


def _check(data: bytes) -> None:
    counts, *packed_processes = data.split(b"\n")
    words = counts.split(b"\0")
    try:
        with readable_replies():
            slots = parse_counts(dict(zip(words[::2], words[1::2], strict=False)))
    except StoreUnavailable:
        return
    seen = [process for process in map(unpack_process, packed_processes) if process]
    span = list(ActivitySpan)[len(data) % len(ActivitySpan)]
    activity = sum_activity(span, {int(_NOW) // 60 - 3 + number: slot for number, slot in slots.items()}, 60, _NOW)
    now = replace(
        make_now(span, at=_NOW),
        activity=activity,
        processes=seen,
    )
    for html in _runner.run(_renderer.render_parts(Page("now.html", view_values(now, span)))).values():
        assert_own_elements(html, has_charts=True)


_PROCESS = (
    b'1800000000 {"host":"mx1","worker":1,"version":"0.7.0","is_loaded":true,"lag_seconds":0.5,'
    b'"quarantined":null,"connections":{"smtp":{"open":1,"accepted":7,"refused":1}}}'
)

TARGET = FuzzTarget(
    _check,
    (
        b"1:ham\0" + b"5\0" + b"1:spam\0" + b"7\0" + b"2:t3\0" + b"12\n" + _PROCESS,
        b"3:unsure\0"
        + b"1\n"
        + _PROCESS.replace(b"1800000000", b"nan")
        + b"\n"
        + _PROCESS.replace(b"0.5", b"NaN"),
        b"3:reject\0" + b"99999999999999999999\n" + _PROCESS.replace(b"1800000000", b"1e300"),
        b"x:ham\0" + b"1",
        b"\n" + _PROCESS.replace(b'"mx1"', b'"<b>\\u202e\\ud800"') + b"\n" + b"1 " + b"[" * 1500,
        b"\n" + _PROCESS.replace(b"null", b"1e300").replace(b":7", b":-1e400") + b"\n-1e300 {}",
    ),
    words=(
        b"\0",
        b"\n",
        b"t20",
        b"t21",
        b":ham\0",
        b"NaN",
        b"Infinity",
        b"1e400",
        b"null",
        b"\\ud800",
        b"-",
        b"{}",
    ),
    max_bytes=3000,
    mutations=60,
)

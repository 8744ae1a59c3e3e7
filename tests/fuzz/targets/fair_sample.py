"""The fair sample of a model: what is read is written again, and draws messages whatever it is."""

from __future__ import annotations

from nbstream.policy.fair_sample import FairSample
from tests.fuzz.target import FuzzTarget


def _check(data: bytes) -> None:
    try:
        sample = FairSample.unpack(data.decode())
    except ValueError:
        return
    assert FairSample.unpack(sample.pack()) == sample
    assert all(isinstance(sample.draws("message", at), bool) for at in (0.0, 1.8e9, sample.since))
    assert len(sample.with_share(0.25, 1.8e9).shares) <= max(20, len(sample.shares))
    assert 0 <= sample.share <= sample.largest_share <= 1


TARGET = FuzzTarget(
    _check,
    (
        b"",
        b"0123abcd 1800000000.5:0.02",
        b"key 1.0:0.5 2.0:0.0",
        b"key nan:0.5",
        b"k 1e400:1",
        b" 0:1",
        b"\xff 1:1",
    ),
    words=(b" 1.0:0.5", b":", b" ", b"nan", b"inf", b"1e-320", b"-0.0"),
    max_bytes=400,
    mutations=1000,
)

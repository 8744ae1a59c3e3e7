"""Log lines: one an event, and nothing from outside can forge another."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from nbstream.logs import JsonFormatter, PeerRateLimitFilter, TextFormatter


def record(message: str, **fields: object) -> logging.LogRecord:
    log_record = logging.LogRecord("nbstream", logging.INFO, "file", 1, message, None, None)
    log_record.fields = fields
    return log_record


def test_json_has_the_event_and_its_fields() -> None:
    line = JsonFormatter().format(record("message", id="x", probability=0.5, verdict=None))

    assert json.loads(line) | {"time": ""} == {
        **{"time": "", "level": "info", "event": "message"},
        **{"id": "x", "probability": 0.5, "verdict": None},
    }


@pytest.mark.parametrize(
    ("created", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000+00:00"),
        (951782399.9996, "2000-02-28T23:59:59.999+00:00"),
        (1750000000.0625, "2025-06-15T15:06:40.062+00:00"),
    ],
)
def test_json_has_the_time_to_the_millisecond(created: float, text: str) -> None:
    line = record("message")
    line.created = created

    assert json.loads(JsonFormatter().format(line))["time"] == text


@pytest.mark.parametrize("hostile", ["a\nb", "\x1b[2J", "\r", "\u202e", "\x85", "\u2028"])
def test_no_text_can_begin_a_new_line_or_move_a_cursor(hostile: str) -> None:
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record(hostile, reply=hostile))

        assert line.isprintable()


def test_a_text_line_has_the_fields_as_name_and_value() -> None:
    line = TextFormatter().format(record("message", id="x", reply="250 ok", verdict=None))

    assert line.endswith('info    message id=x reply="250 ok" verdict=-')


def refusals(peer_limit: PeerRateLimitFilter, peers: list[str], second: float) -> list[tuple[str, object]]:
    """The peers and ``left_out`` of the lines that pass where all these peers are refused in this second."""
    passed = []
    for peer in peers:
        line = record("refused", peer=peer)
        line.created = second
        if peer_limit(line):
            fields = vars(line)["fields"]
            passed.append((fields["peer"], fields.get("left_out")))
    return passed


def test_a_flood_of_one_peer_is_ten_lines_a_minute_and_leaves_room_for_others() -> None:
    peer_limit = PeerRateLimitFilter()

    assert refusals(peer_limit, ["a"] * 500, 100.0) == [("a", None)] * 10
    assert refusals(peer_limit, ["b", "a"], 159.0) == [("b", 490)]
    assert refusals(peer_limit, ["a", "a"], 160.0) == [("a", 1), ("a", None)]
    assert refusals(peer_limit, ["a"], 90.0) == [("a", None)], "a clock that was set back"


FLOOD = """
import logging, nbstream.logs
nbstream.logs.set_up_logging(nbstream.logs.LogSettings(format="json"), {"worker": 1})
for number in range(500):
    logging.getLogger("nbstream").warning("refused", extra=nbstream.logs.event_fields(peer="203.0.113.9"))
"""


def test_a_flood_ends_before_standard_error() -> None:
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, timeout=60, check=True)

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert 10 <= len(lines) <= 20, "more than ten if the minute ended meanwhile"
    assert all((line["worker"], line["peer"]) == (1, "203.0.113.9") for line in lines)

"""Prequential scores: what is read is written again, and the copies of a window agree whatever comes."""

from __future__ import annotations

from nbstream.policy.thresholds import PrequentialScore, PrequentialScores
from nbstream.store.model.history import Assessment
from tests.fuzz.target import FuzzTarget

_NAMES = (b"first:ham", b"first:spam")


def _check(data: bytes) -> None:
    one, two = PrequentialScores(), PrequentialScores()
    for line in data.split(b"\n"):
        for packed in line.split(b";"):
            _check_packed(packed)
        values = line.split(b";")
        change = {name: value.replace(b"|", b"\n") for name, value in zip(_NAMES, values, strict=False) if value}
        try:
            one.apply_change(change)
        except ValueError:
            return  # whoever follows the changes reads all prequential scores again
        for _ in range(2):  # a change may be applied twice
            two.apply_change(change)
    for label in ("ham", "spam"):
        assert one[label].scores() == two[label].scores()
        assert list(one[label].ascending_probabilities) == sorted(
            score.probability for score in one[label].scores()
        )
        assert len(one[label]) == len(one[label].scores())


def _check_packed(packed: bytes) -> None:
    try:
        prequential_score = PrequentialScore.unpack(packed)
    except ValueError:
        pass
    else:
        assert 0 <= prequential_score.probability <= 1
        assert PrequentialScore.unpack(prequential_score.pack()) == prequential_score
    try:
        assessment = Assessment.unpack(packed)
    except ValueError:
        return
    again = Assessment.unpack(assessment.pack().encode())
    assert again == assessment


TARGET = FuzzTarget(
    _check,
    (
        b"come|1799999999.5 abc 0.25 0.001:1\ncome|1799999998.0 abd 1.0;come|1.0 x 0.5 0.5:0 0.001:1\n"
        b"1799999999.5 abc 0.25 0.001:1",
        b"come|2.0 a 0.5|come|3.0 b 0.5\noldest|2.5 c 0.1\n;gone|2.0 a 0.5",
        b"1e400 x 0.5;1.0 x 1.1\nnan ham;inf spam;0.5 unsure",
        b"come|1e5 a 5e-324 0.5:1 0.5:1\n",
    ),
    words=(b" 0.001:1", b" 0.5:0", b"e-5", b"\ncome|", b"|gone|", b"|oldest|", b"1.0 a 0.5", b"inf"),
    max_bytes=2000,
    mutations=1500,
)

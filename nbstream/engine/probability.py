"""The mean probability of the calibration, by the native library. See ``native/src/score/calibration.rs``."""

from __future__ import annotations

import ctypes


class MeanProbability:
    """Averages the probability of a message over pairs of temperature and bias."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._function = library.nbn_mean_probability
        self._function.argtypes = [ctypes.c_double, ctypes.c_char_p, ctypes.c_size_t]
        self._function.restype = ctypes.c_double

    def __call__(self, log_odds: float, pairs: bytes) -> float:
        """Return P(spam) for log-odds in nats; not a number where it cannot be computed.

        ``pairs`` are three doubles for each pair: its share, the bias, and twice the temperature.
        """
        mean: float = self._function(log_odds, pairs, len(pairs))
        return mean

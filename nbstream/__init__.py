"""nbstream: a spam filter daemon with an online naive Bayes whose counts live in Redis."""

__version__ = "0.7.0"

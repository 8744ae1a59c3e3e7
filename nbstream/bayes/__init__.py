"""Naive Bayes: the classifier of the filter and four event models for programs, without I/O.

The four classes below are the public part; see ``event_models`` for their formulas.
"""

from nbstream.bayes.event_models import BernoulliNB, CategoricalNB, Evidence, GaussianNB, MultinomialNB

__all__ = ["BernoulliNB", "CategoricalNB", "Evidence", "GaussianNB", "MultinomialNB"]

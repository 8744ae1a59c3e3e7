from nbstream.bayes.event_models import BernoulliNB, CategoricalNB, Evidence, GaussianNB, MultinomialNB

__all__ = ["BernoulliNB", "CategoricalNB", "Evidence", "GaussianNB", "MultinomialNB"]

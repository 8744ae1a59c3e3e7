"""Other filters: what they have learned is recognized and refused, and what was learned here is written for them.

Rules: pure. Why theirs is not read: see docs/experiments.md, "Knowledge of other filters".
"""

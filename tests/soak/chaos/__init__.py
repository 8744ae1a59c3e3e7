"""Chaos: all that nbstream stands on is killed, stopped and cut by a schedule; then everything is counted again.

``python -m tests.soak.chaos --seed 7 --minutes 5`` runs it. The schedule is a pure function of the seed. Meanwhile
clients send mail, teach, unlearn, relearn, undo and use streams, and write down what was acknowledged to them. The
audit compares that with what was delivered and with what is stored.
"""

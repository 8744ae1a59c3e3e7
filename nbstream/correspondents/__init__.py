"""Whom we know: answers to mail of ours, and senders that our users wrote to, as evidence for the filter.

Nothing here decides anything: what is known becomes tokens, and what these weigh is learned like all else.
"""

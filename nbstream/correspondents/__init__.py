"""Correspondents: replies to outgoing mail, and senders whom users have written to, as evidence.

Nothing here decides anything: what is known becomes tokens, and what these weigh is learned like all else.
"""

"""Delivery: SMTP and LMTP next hops, Maildirs and the quarantine."""

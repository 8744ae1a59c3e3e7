"""The only code that writes Redis: class counts, ledger, change stream, and the mirror that follows it."""

"""Storage in Redis: counts, ledger, history and change stream, and their followers in memory."""

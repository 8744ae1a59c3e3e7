"""The data in Redis: the counts of a model, its ledger and its changes, and copies of them in memory."""

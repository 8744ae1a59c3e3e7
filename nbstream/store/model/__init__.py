"""One model in Redis: its keys, its counts, its ledger, its change stream and its signature."""

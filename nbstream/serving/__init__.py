"""How the daemon runs: its parts in one process, or in several that share the doors."""

"""The processes of the daemon, its settings, and the composition root that connects all parts."""

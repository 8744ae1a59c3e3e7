"""The processes of the daemon: server, supervisor, workers, signals, reload and drain."""

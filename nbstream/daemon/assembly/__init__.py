"""From the settings: Redis with the model, and the filter over it, for the daemon and for commands without one."""

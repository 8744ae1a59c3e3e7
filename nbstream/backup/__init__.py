"""A backup: one file with all that a site cannot make again, written while daemons run, and its restore."""

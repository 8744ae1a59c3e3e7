"""The command line: its parser, its output and its commands."""

"""The commands of the command line, one module each; nothing here is imported before its command is run."""

"""The commands, one module for each; a module is imported only when its command runs."""

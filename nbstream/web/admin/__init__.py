"""The views of administrators (``/ui/``): they are about all mail."""

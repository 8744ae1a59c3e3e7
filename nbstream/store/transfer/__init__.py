"""A model as a file: the archive format, export, import, and the conversion into another time base."""

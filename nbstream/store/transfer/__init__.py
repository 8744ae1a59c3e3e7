"""A model as a file: the archive format, export and import."""

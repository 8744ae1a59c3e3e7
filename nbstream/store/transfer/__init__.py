"""A model as a file: export, import, and the import into another half-life."""

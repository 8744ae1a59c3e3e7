"""The copy of a model's counts in memory that follows the change stream, and the eviction of rare tokens."""

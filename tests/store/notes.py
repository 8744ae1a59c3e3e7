"""A note for tests that do not care who taught."""

from nbstream.store.model.history import Note, Opinion

NOTE = Note("test", "nobody", Opinion(0.5, "unsure"), Opinion(0.5, "unsure"))

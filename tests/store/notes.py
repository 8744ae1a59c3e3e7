"""A note for tests that do not care who taught."""

from nbstream.store.model.history import Assessment, LessonNote

NOTE = LessonNote("test", "nobody", Assessment(0.5, "unsure"), Assessment(0.5, "unsure"))

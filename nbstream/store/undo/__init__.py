"""Undo of lessons: a plan says which changes can be undone, and a restoration carries it out."""

"""Recorded answers: what clients of each listener got to a fixed set of sessions, compared byte for byte."""

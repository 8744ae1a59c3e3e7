"""Doors: each parses its wire, calls the filter, renders the verdict."""

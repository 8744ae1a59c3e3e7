"""Builds the working parts from the settings."""

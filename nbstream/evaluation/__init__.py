"""Measuring the filter on labelled streams: each message is scored first, and its label learned afterwards."""

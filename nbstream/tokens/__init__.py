"""Turns a message into tokens: what it says, where it links to, how it travelled and how it is built."""

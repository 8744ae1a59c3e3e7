"""The listeners: where mail and requests come in, and what all protocols share."""

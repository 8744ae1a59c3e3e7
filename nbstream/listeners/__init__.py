"""The listeners: where mail and requests come in, one protocol in each package."""

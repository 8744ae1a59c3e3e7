"""The listeners: where mail and requests come in, one package for each protocol."""

"""The Redis server that nbstream starts itself where none is configured."""

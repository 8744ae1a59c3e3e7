"""The stream listener: requests come from a Redis stream, and results go to another one."""

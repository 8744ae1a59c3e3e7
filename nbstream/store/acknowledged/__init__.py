"""Lessons that Redis acknowledged: recorded for some minutes, and taught again where a failover lost them."""

from tests.harness.scripted import play, relay_to

__all__ = ["play", "relay_to"]

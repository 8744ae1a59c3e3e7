from tests.delivery.scripted import play, relay_to

__all__ = ["play", "relay_to"]

"""From a probability to a verdict, and how a verdict is written into a message's header."""

"""From a probability to a verdict and an action, and how both are written into the header."""

"""The recently checked messages: their tokens, and the explanations of their verdicts."""

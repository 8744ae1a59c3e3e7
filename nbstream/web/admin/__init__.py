"""The page: what the filter does, why, and how to put it right, in a browser."""

"""Taking back what was learned: which changes can be undone, and undoing them."""

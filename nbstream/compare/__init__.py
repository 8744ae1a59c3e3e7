"""Another filter beside this one: what its fields say of each message, and which of the two was right."""

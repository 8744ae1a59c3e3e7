"""What other filters know in ours, and what ours knows in them, by the real programs."""

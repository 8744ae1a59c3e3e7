"""What a machine sustains: generated mail, measured costs, a simulation of the queue, and the report on them."""

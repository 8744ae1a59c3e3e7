"""The capacity of one machine, and of more: measured, simulated, and the simulation compared with a real run."""

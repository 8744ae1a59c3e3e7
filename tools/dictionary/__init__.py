"""The dictionary with which checked messages are compressed: the mail that it is trained on, and the training."""

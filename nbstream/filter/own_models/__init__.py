"""Own models: everybody's counts above those of the common model, chosen by the address of a recipient."""

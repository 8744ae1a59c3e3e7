"""Which own model a recipient has: the names of own models, and the section of the settings that says so."""

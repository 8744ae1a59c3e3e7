"""From the settings to the parts that work with each other."""

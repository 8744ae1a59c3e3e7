"""The machinery of the settings: a YAML file, its values and its sections; it knows no feature."""

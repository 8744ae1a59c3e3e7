"""The machinery of settings: a YAML file, its values and its sections. It knows no feature."""

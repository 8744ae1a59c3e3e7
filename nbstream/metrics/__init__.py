"""What is counted and measured, in the format of Prometheus."""

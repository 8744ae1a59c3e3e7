"""The fuzz targets: one module for each thing that reads bytes from outside, or bytes that were stored."""

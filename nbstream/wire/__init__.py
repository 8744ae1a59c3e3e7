"""Wire formats without I/O: bytes in, frozen events out."""

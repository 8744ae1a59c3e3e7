"""The formats of the protocols, without I/O: bytes or fields in, frozen values out, and the reverse."""

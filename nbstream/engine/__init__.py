"""The native library: compiled code behind the Python that specifies it."""

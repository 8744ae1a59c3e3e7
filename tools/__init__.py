"""Programs of the development of nbstream; no part of the package."""

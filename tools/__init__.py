"""Programs for the development of nbstream; they are not part of the package."""

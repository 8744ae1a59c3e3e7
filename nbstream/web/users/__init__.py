"""What each user has of the filter: signed links, his preferences, and the digest of what was held back."""

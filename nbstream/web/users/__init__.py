"""What belongs to each user: signed links, preferences, and the digest of quarantined mail."""

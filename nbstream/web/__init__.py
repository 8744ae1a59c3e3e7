"""The web interface: pages about all mail for administrators, and about one address for each user."""

"""The web interface: views of all mail for administrators, and of the mail of one address for each user."""

"""The web pages: the administrator's page, the self-service page of users, signed links and the digest."""

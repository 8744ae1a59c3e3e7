"""What tests of several folders use: servers, clients, whole sites, mail. README.md says what there is."""

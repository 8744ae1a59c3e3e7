"""The views of users (``/my/``), and the pages behind mailed links: they are about the mail of one address."""

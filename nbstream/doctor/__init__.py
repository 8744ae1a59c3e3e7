"""``nbstream doctor``: examines the installation, and says what is wrong and what to do about it."""

"""``nbstream doctor``: examine the installation, and say what is wrong and what to do about it."""

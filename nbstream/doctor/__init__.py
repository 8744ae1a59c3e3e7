"""``nbstream doctor``: what is the case at this site, and where something is wrong, what to do about it."""

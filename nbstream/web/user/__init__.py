"""The page of users (``/my/``): each sees what was held back and checked for him alone, and says what it is."""

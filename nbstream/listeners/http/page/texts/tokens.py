"""The texts of the view tokens."""

from __future__ import annotations

TEXTS = {
    "name": "Tokens",
    "title": "The tokens that speak loudest",
    "explained": "The model knows {size} tokens. The weight of a token is its log-ratio: above 0 it speaks for "
    "spam, below 0 for ham. Ham and spam are the messages of each class that had it, by their weight.",
    "search": "Part of a token",
    "search_button": "Search",
    "clear": "Show all",
    "for_spam": "For spam",
    "for_ham": "For ham",
    "token": "Token",
    "from": "Where",
    "log_ratio": "Weight",
    "ham": "Ham",
    "spam": "Spam",
    "none": "No token matches.",
    "nothing_known": "The model knows no tokens yet.",
    "too_large": "The model has too many tokens to be searched here: run nbstream top-tokens.",
    "busy": "Others search now. Please try again in a moment.",
}

"""The texts of the view tokens."""

from __future__ import annotations

TEXTS = {
    "name": "Tokens",
    "title": "The tokens that speak loudest",
    "explained": "The log-ratio is the vote of a token in a check: positive speaks for spam, negative for ham. "
    "The numbers of messages are by the weight with which they were learned. The model knows {size} tokens.",
    "search": "Part of a token",
    "search_button": "Search",
    "for_spam": "For spam",
    "for_ham": "For ham",
    "token": "Token",
    "from": "From",
    "log_ratio": "Log-ratio",
    "ham": "Ham",
    "spam": "Spam",
    "none": "No token.",
    "nothing_known": "The model knows no tokens yet.",
    "too_large": "The model has too many tokens to be searched here: run nbstream top-tokens.",
    "busy": "Others search now. Please try again in a moment.",
}

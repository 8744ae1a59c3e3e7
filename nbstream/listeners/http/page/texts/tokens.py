"""The texts of the view tokens."""

from __future__ import annotations

TEXTS = {
    "name": "Tokens",
    "title": "The tokens that speak loudest",
    "explained": "The model knows {count:,} tokens. The weight of a token is its log-ratio: above 0 it speaks for "
    "spam, below 0 for ham. Ham and spam say how many messages of each class had it, each by its weight as a "
    "lesson.",
    "explained.one": "The model knows 1 token.",
    "caption": "The tokens that speak loudest for {label}, the loudest first",
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
    "nothing_known": (
        "The model knows no tokens yet. Teach by mail, with nbstream learn, or with the buttons of a message."
    ),
    "too_large": (
        "The model knows {size} tokens. This view searches at most {most}, because a larger search would hold up "
        "mail. Run nbstream top-tokens instead: it lists the tokens that speak loudest for a class."
    ),
    "busy": "Other searches are at work. Please try again in a moment.",
}

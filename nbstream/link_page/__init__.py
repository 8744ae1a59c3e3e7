"""The pages behind the links of a digest: what a user is shown, and what he then does with a button."""

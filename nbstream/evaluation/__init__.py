"""The evaluation on labelled streams: each message is scored first, then its label is learned."""

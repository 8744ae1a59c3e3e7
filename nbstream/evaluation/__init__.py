"""The evaluation of the filter on labelled streams: first each message is scored, then its label learned."""

"""The spool: messages on disk that were acknowledged as feedback and wait to be learned."""

"""The SMTP and LMTP listener: mail comes in, gets its verdict, and goes on to the next hop."""

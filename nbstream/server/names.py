"""The names of the listeners, as they are in the configuration, in logs, in metrics and in the history.

The rights to teach are looked up by these names. They stand here once, because a name that differs in one place
would give nobody the right to teach.
"""

from __future__ import annotations

SMTP = "smtp"
LMTP = "lmtp"
HTTP = "http"
SPAMD = "spamd"
MILTER = "milter"
STREAM = "stream"
DOVECOT = "dovecot"
METRICS = "metrics"

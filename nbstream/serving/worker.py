"""The name by which a supervisor of nbstream 0.1 starts a worker.

After an upgrade it is still running until the daemon is restarted. The worker that it starts then sees that it is
of another version, and says "restart the daemon". Without this module it would end with a traceback.
"""

from nbstream.daemon.worker import main

__all__ = ["main"]

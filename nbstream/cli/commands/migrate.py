"""``nbstream migrate``: keep a model that an older version of nbstream has learned.

Rules: nothing that was learned is changed; see ``nbstream.store.migration``. It may be repeated: a model that was
migrated stays as it is.
"""

from __future__ import annotations

import argparse
import json
import time

from nbstream import config
from nbstream.assembly.store import key_fingerprint, open_redis
from nbstream.cli import interrupts
from nbstream.errors import DaemonRunning
from nbstream.store.embedded.locks import daemon_pid
from nbstream.store.migration import migrate, migrate_back


def run(options: argparse.Namespace) -> int:
    """Print what was done; 75 where a daemon runs or Redis is away, 78 for a model that cannot be migrated."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    if not options.force and (pid := daemon_pid(settings.state_dir)) is not None:
        raise DaemonRunning(f"a daemon (pid {pid}) runs on state_dir {settings.state_dir}: stop it and try again")
    async with open_redis(settings) as store:
        if store.embedded:
            await store.embedded.ensure_running()
        name, key = settings.model.name, key_fingerprint(settings)
        if options.back:
            changed = await migrate_back(store.client, name, force=options.force, key_fingerprint=key)
        else:
            changed = await migrate(store.client, name, time.time(), force=options.force, key_fingerprint=key)
    if options.json:
        print(json.dumps({"model": name, "changed": changed, "back": options.back}))
    elif changed:
        done = "is one of the version before again" if options.back else "is migrated"
        print(f"model {name!r} {done}: all that was learned is kept")
    else:
        which = "the older" if options.back else "this"
        print(f"model {name!r} is one of {which} version already: nothing was changed")
    return 0

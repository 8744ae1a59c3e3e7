"""The configuration: a YAML file becomes one frozen ``Settings``, or one ``ConfigError`` with every problem.

Rules: every key is optional and has a safe default. An unknown key is refused, never ignored. Neither an error nor
``repr`` shows a secret. The text below each key says what the key is for. A section stands in the package of its
feature, in its ``settings`` module. What is imported here starts quickly: no numpy, no Redis, no listener.
"""

from nbstream.daemon.config.loading import (
    LIVE_SECTIONS,
    POLICY_SECTIONS,
    changed_keys,
    default_settings,
    find_config_file,
    keys_awaiting_restart,
    load_settings,
    make_settings,
    merge_live_settings,
    policy_hash,
)
from nbstream.daemon.config.settings import Settings

__all__ = [
    "LIVE_SECTIONS",
    "POLICY_SECTIONS",
    "Settings",
    "changed_keys",
    "default_settings",
    "find_config_file",
    "keys_awaiting_restart",
    "load_settings",
    "make_settings",
    "merge_live_settings",
    "policy_hash",
]

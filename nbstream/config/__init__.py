"""The configuration: a YAML file becomes one frozen ``Settings``, or one ``ConfigError`` with every problem.

Rules: every key is optional and has a safe default. An unknown key is refused, never ignored. Neither an error nor
``repr`` shows a secret. The text below each key says what the key is for. Of nbstream only ``errors``, the names
of the engines and pure modules of ``policy`` are imported here: ``assembly`` turns settings into the options of
each module.
"""

from nbstream.addresses import TcpAddress
from nbstream.config.listeners import (
    HttpListenerSettings,
    ListenersSettings,
    MetricsListenerSettings,
    SmtpListenerSettings,
    StreamListenerSettings,
)
from nbstream.config.loading import (
    LIVE_SECTIONS,
    POLICY_SECTIONS,
    changed_keys,
    find_config_file,
    keys_awaiting_restart,
    load_settings,
    merge_live_settings,
    policy_hash,
)
from nbstream.config.policy import (
    ActionsSettings,
    FeedbackSettings,
    QuarantineSettings,
    RecipientRuleSettings,
    VerdictSettings,
)
from nbstream.config.redis import RedisSettings
from nbstream.config.relay import RelaySettings
from nbstream.config.settings import (
    AutolearnSettings,
    LimitsSettings,
    LogSettings,
    MinLearnedSettings,
    ModelSettings,
    Settings,
)
from nbstream.config.values import (
    FalsePositiveCost,
    FalsePositiveRate,
    MaildirNextHopSetting,
    Network,
    SecretFile,
    ServerNextHopSetting,
)

__all__ = [
    "LIVE_SECTIONS",
    "POLICY_SECTIONS",
    "ActionsSettings",
    "AutolearnSettings",
    "FalsePositiveCost",
    "FalsePositiveRate",
    "FeedbackSettings",
    "HttpListenerSettings",
    "LimitsSettings",
    "ListenersSettings",
    "LogSettings",
    "MaildirNextHopSetting",
    "MetricsListenerSettings",
    "MinLearnedSettings",
    "ModelSettings",
    "Network",
    "QuarantineSettings",
    "RecipientRuleSettings",
    "RedisSettings",
    "RelaySettings",
    "SecretFile",
    "ServerNextHopSetting",
    "Settings",
    "SmtpListenerSettings",
    "StreamListenerSettings",
    "TcpAddress",
    "VerdictSettings",
    "changed_keys",
    "find_config_file",
    "keys_awaiting_restart",
    "load_settings",
    "merge_live_settings",
    "policy_hash",
]

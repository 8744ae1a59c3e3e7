"""The configuration: a YAML file becomes one frozen ``Settings``, or one ``ConfigError`` with every problem.

Rules: every key is optional and its default is safe; an unknown key is refused, never ignored; neither
an error nor ``repr`` shows a secret. The text below each key says what the key is for. Of nbstream only
``errors`` and what is pure of ``policy`` are imported here: the top turns settings into the parameters that each
module owns.
"""

from nbstream.config.actions import Actions, Quarantine
from nbstream.config.addresses import Address
from nbstream.config.event_models import Bernoulli, Categorical, EventModels, Gaussian, Multinomial
from nbstream.config.listeners import HttpListener, Listeners, MetricsListener, SmtpListener, StreamListener
from nbstream.config.live_settings import LIVE, POLICY, adopted, changed, policy_hash, waiting
from nbstream.config.loading import find_config, load
from nbstream.config.settings import (
    Autolearn,
    Feedback,
    Limits,
    Log,
    MinLearned,
    Model,
    Recipients,
    Redis,
    Relay,
    Settings,
)
from nbstream.config.values import FalsePositiveCost, FalsePositiveRate, MaildirHop, Network, SecretFile, SmtpHop
from nbstream.config.verdict import Verdict

__all__ = [
    "LIVE",
    "POLICY",
    "Actions",
    "Address",
    "Autolearn",
    "Bernoulli",
    "Categorical",
    "EventModels",
    "FalsePositiveCost",
    "FalsePositiveRate",
    "Feedback",
    "Gaussian",
    "HttpListener",
    "Limits",
    "Listeners",
    "Log",
    "MaildirHop",
    "MetricsListener",
    "MinLearned",
    "Model",
    "Multinomial",
    "Network",
    "Quarantine",
    "Recipients",
    "Redis",
    "Relay",
    "SecretFile",
    "Settings",
    "SmtpHop",
    "SmtpListener",
    "StreamListener",
    "Verdict",
    "adopted",
    "changed",
    "find_config",
    "load",
    "policy_hash",
    "waiting",
]

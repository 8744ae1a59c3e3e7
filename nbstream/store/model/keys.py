"""The names of a model's keys in Redis.

All keys of model ``m`` share the hash tag ``{m}``, so that one learn is one atomic script on Redis Cluster
too. ``sequence`` is apart from ``totals`` because it only grows, while learn followed by unlearn must give
back the same totals.
"""

from __future__ import annotations

from dataclasses import dataclass

from nbstream.bayes.counts import CLASSES

IMPORT_READY = b"ready"
"""What ``importing`` begins with while an import's records are being added to the model."""


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """The keys of one model."""

    model: str

    def _key(self, name: str) -> str:
        return f"nbstream:{{{self.model}}}:{name}"

    @property
    def log_name(self) -> str:
        """What the log calls them."""
        return "counts"

    @property
    def pattern(self) -> str:
        """What matches all keys of the model, and no others, in a SCAN; a model's name holds no wildcard."""
        return self._key("*")

    @property
    def counts(self) -> tuple[str, ...]:
        """Per class, in the order of ``CLASSES``: a hash token → count."""
        return tuple(self._key(f"counts:{label}") for label in CLASSES)

    @property
    def first_scores(self) -> tuple[str, ...]:
        """Per class: a sorted set of packed first scores by time, the recent ones."""
        return tuple(self._key(f"first:{label}") for label in CLASSES)

    @property
    def totals(self) -> str:
        """A hash: learned messages and summed weights per class, and the size of the vocabulary."""
        return self._key("totals")

    @property
    def changes(self) -> str:
        """The change stream, trimmed: each entry holds the resulting counts of one learn."""
        return self._key("changes")

    @property
    def sequence(self) -> str:
        """The number of the last change."""
        return self._key("sequence")

    @property
    def history(self) -> str:
        """A stream, trimmed: who changed what, when, with the entry that was there before."""
        return self._key("history")

    @property
    def incoming(self) -> str:
        """A stream: what programs want checked or learned; an entry goes once it is answered."""
        return self._key("in")

    @property
    def outgoing(self) -> str:
        """A stream, trimmed: the answers to those entries."""
        return self._key("out")

    @property
    def dead_letters(self) -> str:
        """A stream, trimmed: the entries that were tried too often."""
        return self._key("dead")

    @property
    def schema(self) -> str:
        """A hash: the schema, the tokenizer and the time base that the model was learned with."""
        return self._key("schema")

    @property
    def recent(self) -> str:
        """A sorted set: the messages that are remembered, by the time of their check."""
        return self._key("recent")

    def checked(self, message_key: str) -> str:
        """What is remembered of one message that was checked."""
        return self._key(f"checked:{message_key}")

    @property
    def ledger_pattern(self) -> str:
        """What matches the keys of all ledger entries, and no others, in a SCAN."""
        return self.ledger("*")

    def ledger(self, message_key: str) -> str:
        """A hash: what one message was learned as, with the exact tokens and weight."""
        return self._key(f"ledger:{message_key}")

    @property
    def importing(self) -> str:
        """Says which import is under way, and whether what it staged is whole; absent otherwise."""
        return self._key("importing")

    @property
    def staged_pattern(self) -> str:
        """What matches the keys that imports have staged, and no others, in a SCAN."""
        return self._key("import:*")

    def staged(self, draw: str) -> StagedKeys:
        """Where the import of that drawn name stages what it reads."""
        return StagedKeys(self.model, draw)


@dataclass(frozen=True, slots=True)
class StagedKeys(ModelKeys):
    """The keys of what one import has read and not yet added to the model."""

    import_id: str

    def _key(self, name: str) -> str:
        return f"nbstream:{{{self.model}}}:import:{self.import_id}:{name}"


@dataclass(frozen=True, slots=True)
class AutolearnKeys(ModelKeys):
    """The keys of what a model learned without people, in one epoch."""

    epoch: int

    def _key(self, name: str) -> str:
        return f"{self.prefix}{name}"

    @property
    def log_name(self) -> str:
        """What the log calls them."""
        return "autolearned counts"

    @property
    def epoch_key(self) -> str:
        """The epoch that holds now; absent for 0."""
        return f"nbstream:{{{self.model}}}:auto"

    @property
    def prefix(self) -> str:
        """What the names of this epoch's keys begin with."""
        return f"{self.epoch_key}:{self.epoch}:"

    @property
    def all_epochs(self) -> str:
        """What matches the keys of every epoch, and no others, in a SCAN."""
        return f"{self.epoch_key}:*"


@dataclass(frozen=True, slots=True)
class StagedLedgerKeys(ModelKeys):
    """The model's keys, but ledger, history and first scores are those of what an import has staged."""

    stage: StagedKeys

    @property
    def history(self) -> str:
        """The history of the stage."""
        return self.stage.history

    @property
    def first_scores(self) -> tuple[str, ...]:
        """Those of the stage, which has none."""
        return self.stage.first_scores

    def ledger(self, message_key: str) -> str:
        """The staged entry of a message."""
        return self.stage.ledger(message_key)

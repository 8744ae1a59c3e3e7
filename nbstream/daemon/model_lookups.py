"""What can be asked about the model of a running process, and about the messages that it knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.daemon.model_findings import budget_findings, learned_findings
from nbstream.filter.filter import MessageRecord, find_message_record
from nbstream.findings import Severity
from nbstream.policy.autolearn import model_state
from nbstream.wire.api_json import ModelStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.config import Settings
    from nbstream.daemon.parts import ServerParts
    from nbstream.filter import FilterPolicy
    from nbstream.filter.scorer import Scorer
    from nbstream.findings import Finding
    from nbstream.policy.verdict import ModelState


@dataclass(frozen=True, slots=True)
class ModelLookups:
    """The state of the model as clients see it; ``policy`` gives the policy in force."""

    settings: Settings
    parts: ServerParts
    policy: Callable[[], FilterPolicy]

    def model_status(self) -> ModelStatus | None:
        """Return the state of the model; None before it is loaded."""
        mirror, state = self.parts.mirror, self.model_state()
        if state is None:
            return None
        return ModelStatus(
            self.settings.model.name,
            state,
            mirror.vocabulary_size,
            self.policy().default_policy.thresholds(mirror.loaded_prequential_scores),
            mirror.lag_seconds,
        )

    def model_state(self) -> ModelState | None:
        """Return how much the model has learned; None before it is loaded."""
        totals = self.parts.mirror.totals
        if totals is None:
            return None
        layer = self.parts.autolearn
        return model_state(totals, self.policy().min_learned, layer.mirror.totals if layer else None)

    def findings(self) -> Sequence[Finding]:
        """Return what is not as it should be with what the model has learned, and with its budgets."""
        mirror, policy, state = self.parts.mirror, self.policy(), self.model_state()
        if mirror.totals is None or state is None:
            return []
        found = [
            *learned_findings(state, mirror.totals.vocabulary_size, self.settings.model.max_tokens),
            *budget_findings(mirror.loaded_prequential_scores, mirror.totals, policy),
        ]
        return [finding for finding in found if finding.severity is not Severity.OK]

    async def message_record(self, message_key: str) -> MessageRecord | None:
        """Return what is known of a message by its id. Raises ``StoreUnavailable``."""
        return await find_message_record(
            message_key, self.parts.recent_messages, self.parts.model, self.make_scorer()
        )

    def make_scorer(self) -> Scorer:
        """Return what scores as checks do now, with what was learned automatically."""
        return self.parts.spam_filter.parts.make_scorer(self.policy())

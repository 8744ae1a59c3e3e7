"""The shapes of the JSON answers of our own API and of ``nbstream explain --json``, member by member.

They are only types, and no program imports them while it runs: a type checker compares them with the functions
that make the answers, and `make reference` makes the schemas of the OpenAPI document from them
(``listeners/http/schemas.json``). A ``Keywords`` beside the type of a member has what JSON Schema can say beyond
the type; its description is Markdown.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict  # not that of typing: pydantic refuses it before Python 3.12

from nbstream.filter.results import FeedbackOutcome
from nbstream.policy.sender_lists import LIST_DECISIONS, ListOwner
from nbstream.policy.verdict import Verdict
from nbstream.tokens.token_groups import GroupName


class Keywords:
    """Keywords of JSON Schema for the type that it annotates; pydantic adds them, without being imported here."""

    def __init__(self, description: str = "", **keywords: Any) -> None:
        self.keywords = keywords | ({"description": description} if description else {})

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), **self.keywords}


Count = Annotated[int, Keywords(minimum=0)]
Probability = Annotated[float, Keywords("P(spam).", minimum=0, maximum=1)]
MessageId = Annotated[str, Keywords("The id of the message.", pattern="^[a-z2-7]{24}$")]
VerdictName = Annotated[str, Keywords("The verdict on the message.", enum=[str(verdict) for verdict in Verdict])]
Label = Annotated[str, Keywords("The name of a class.", pattern="^[a-z][a-z0-9-]{0,30}$")]
Reason = Annotated[str, Keywords("Why the message has this verdict.")]
Score = Annotated[float, Keywords("The log-odds of spam before calibration, in nats.")]
LogRatio = Annotated[float, Keywords("The weight of the clue: above 0 it is evidence for spam, below 0 for ham.")]
TokenText = Annotated[str, Keywords("The token.")]
Origin = Annotated[str, Keywords("Where in the message the token comes from.")]


class Problem(TypedDict):
    """Why a request is refused (RFC 9457)."""

    type: Annotated[str, Keywords("`about:blank`: the type of the problem is that of its status.")]
    title: Annotated[str, Keywords("The name of the status.")]
    status: Annotated[int, Keywords("The status of the answer.", minimum=400, maximum=599)]
    detail: Annotated[str, Keywords("What is wrong, in words.")]


class Thresholds(TypedDict):
    """The thresholds in force: P(spam) from which a message gets a verdict; `null` is never reached."""

    unsure: Annotated[float, Keywords("From here on a message is unsure.", minimum=0, maximum=1)]
    spam: Annotated[float | None, Keywords("From here on a message is spam.")]
    reject: Annotated[float | None, Keywords("From here on a message is refused.")]
    guarantee: Annotated[
        str, Keywords("What is guaranteed of the budget, or why nothing is; empty without a budget.")
    ]
    guaranteed: Annotated[bool, Keywords("Whether the threshold for spam keeps a budget.")]


class Opinion(TypedDict):
    """The verdict on a message at one moment."""

    verdict: VerdictName
    probability: Probability


class Counts(TypedDict):
    """Messages learned and not taken back, by class."""

    ham: Count
    spam: Count


Needed = Annotated[dict[str, Count], Keywords("Messages of each class that the model needs before it decides.")]
Learned = Annotated[Counts, Keywords("Messages of each class that the model has learned.")]

Clue = TypedDict("Clue", {"token": TokenText, "from": Origin, "log_ratio": LogRatio})
Clue.__doc__ = "A token that voted."

_CountedMessages = Annotated[
    float | None, Keywords("Messages with the token, by their weight; `null` where nothing is counted.")
]
CountedClue = TypedDict(
    "CountedClue",
    {
        "token": TokenText,
        "from": Origin,
        "ham": _CountedMessages,
        "spam": _CountedMessages,
        "log_ratio": LogRatio,
        "sum": Annotated[float, Keywords("The prior and the weights of all clues up to this one.")],
    },
)
CountedClue.__doc__ = "A token that voted, with the counts behind its weight."


class Kind(TypedDict):
    """How probable one kind is."""

    name: Label
    probability: Annotated[float, Keywords("P(kind), if the message is not spam.", minimum=0, maximum=1)]
    clues: Annotated[
        list[Clue], Keywords("What speaks for this kind (above 0) and for the others, the strongest first.")
    ]


class Kinds(TypedDict):
    """Which kind a message is of that is not spam."""

    name: Annotated[
        Label | None, Keywords("The most probable kind; `null` while fewer than two have learned enough.")
    ]
    kinds: Annotated[list[Kind], Keywords("The kinds that have learned enough, the most probable first.")]
    missing: Annotated[dict[str, Count], Keywords("Messages that each of the other kinds still has to learn.")]


class WithKind(TypedDict):
    """What an answer says of kinds."""

    kind: NotRequired[
        Annotated[Kinds, Keywords("Only where `model.classes` has kinds, and of a message that is not spam.")]
    ]


class Listed(TypedDict):
    """What a sender list says of the sender of a message."""

    decision: Annotated[
        str,
        Keywords(
            "`allow` or `block`: the list decided the verdict. `allow-unproved`: nothing proved the sender, and "
            "the verdict is that of the score.",
            enum=list(LIST_DECISIONS),
        ),
    ]
    owner: Annotated[str, Keywords("Whose list it is.", enum=[str(owner) for owner in ListOwner])]


class WithListed(TypedDict):
    """What an answer says of sender lists."""

    listed: NotRequired[Annotated[Listed, Keywords("Only where the sender is on a sender list.")]]


class Check(WithKind, WithListed):
    """The result of a check."""

    id: MessageId
    verdict: VerdictName
    probability: Probability
    score: Score
    reason: Reason
    model: Annotated[str, Keywords("The name of the model.")]
    learned: Learned
    needed: Needed
    thresholds: Thresholds
    clues: Annotated[list[Clue], Keywords("The clues, the strongest first.")]


class Lesson(TypedDict):
    """The result of feedback."""

    id: MessageId
    outcome: Annotated[str, Keywords("What the feedback did.", enum=[str(outcome) for outcome in FeedbackOutcome])]
    label: Annotated[Label | None, Keywords("The label that was learned or taken back; `null` if there was none.")]
    before: Annotated[Opinion, Keywords("The verdict before the feedback.")]
    after: Annotated[Opinion, Keywords("The verdict after the feedback.")]
    learned: Learned
    needed: Needed
    told: Annotated[str, Keywords("The whole answer as one line of text.")]


class NewGroup(TypedDict):
    """A group of tokens of the header or the structure, some of which no learned spam has had."""

    group: GroupName
    tokens: Annotated[int, Keywords("The tokens of the group in the message.", minimum=0)]
    known_from_spam: Annotated[int, Keywords("Those that learned spam has had.", minimum=0)]


class Discount(TypedDict):
    """What is taken back of what speaks for spam, because the message is unlike learned spam."""

    probability: Annotated[float, Keywords("P(spam) without the discount.", minimum=0, maximum=1)]
    taken_back: Annotated[float, Keywords("What is taken back of the score, in nats.", minimum=0)]
    deviations: Annotated[
        float, Keywords("How much newer it is than the mean of learned spam, in standard deviations.", minimum=0)
    ]
    groups: Annotated[list[NewGroup], Keywords("The newest first.")]


class Explanation(TypedDict):
    """Why a message has its verdict, at one moment."""

    time: Annotated[str, Keywords("The moment, with its offset from UTC.", format="date-time")]
    verdict: VerdictName
    reason: Reason
    probability: Probability
    score: Score
    prior: Annotated[float, Keywords("The score before any clue, from the numbers of learned messages, in nats.")]
    discount: Annotated[Discount | None, Keywords("What is taken back of mail unlike learned spam, or null.")]
    thresholds: Thresholds
    learned: Learned
    needed: Needed
    clues: Annotated[list[CountedClue], Keywords("The strongest first; with the prior they sum to the score.")]


class Remembered(TypedDict):
    """The last check of a message."""

    verdict: VerdictName
    probability: Probability
    policy: Annotated[str, Keywords("The rule of `recipients` that decided, or `default`.")]


class LedgerEntry(TypedDict):
    """What a message is learned as."""

    label: Label
    time: Annotated[str, Keywords("When it was learned, with its offset from UTC.")]
    source: Annotated[str, Keywords("The listener or command that took the feedback.")]
    actor: Annotated[str, Keywords("Who gave the feedback.")]


class Known(WithKind):
    """What is known of a message by its id."""

    id: MessageId
    remembered: Annotated[Remembered | None, Keywords("The last check; `null` if it is not remembered.")]
    learned: Annotated[LedgerEntry | None, Keywords("What the message is learned as; `null` if it is not.")]
    then: Annotated[Explanation | None, Keywords("Why, at the last check; `null` if it is not remembered.")]
    now: Annotated[Explanation, Keywords("Why, as the model is now.")]


class Model(TypedDict):
    """The state of the model."""

    name: Annotated[str, Keywords("The name of the model.")]
    state: Annotated[
        str, Keywords("`ready`, or `learning N/M` with N of M messages; `, K of them kept mail` may follow.")
    ]
    learned: Learned
    needed: Needed
    tokens: Annotated[int, Keywords("Distinct tokens in the vocabulary.", minimum=0)]
    thresholds: Thresholds
    lag_seconds: Annotated[
        float, Keywords("Seconds since the counts in memory were last known to equal Redis.", minimum=0)
    ]

"""The filter for programs, without a daemon: one object with three verbs.

::

    from nbstream import SpamFilter

    with SpamFilter.open("mail.nbs") as spam_filter:
        spam_filter.learn(raw, "spam")
        result = spam_filter.check(raw)      # result.probability, .verdict, .reason, .clues
        spam_filter.unlearn(raw)

Rules: this is the core of the daemon, so the same lessons give the same verdicts. Bytes are mail, as it came over
the wire or lies in a file; a ``str`` is a text of any other kind; a value of another type is a ``TypeError``. An
object may be used by several threads: it has a thread of its own, in which one call is worked on after another. A
coroutine calls it by ``asyncio.to_thread``.
That thread runs no code of the caller, and it does not survive ``os.fork``: the child makes an object of its own.
"""

from __future__ import annotations

import asyncio
import email.message
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NewType, TypeAlias, TypeVar, cast

from nbstream.bayes.table_counts import make_counts
from nbstream.daemon.assembly.filter import key_fingerprint, make_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.daemon.config import default_settings, load_settings, make_settings
from nbstream.engine.choice import choose_engine
from nbstream.filter import FeedbackOutcome, LabelledMessage, learned_by_class
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import FeedbackSource, Reinforcement
from nbstream.store.model.memory_model import MemoryModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from nbstream.daemon.config import Settings
    from nbstream.errors import StoreIncompatible
    from nbstream.filter import Check, CountSource, FeedbackResult, Filter, LessonStore
    from nbstream.mail.message import Message
    from nbstream.policy.header import MessageReader

Label: TypeAlias = Literal["ham", "spam"]
"""The two classes."""

Verdict: TypeAlias = Literal["ham", "unsure", "spam", "reject"]
"""What a message is called; ``reject`` only where a threshold for it is set."""

Outcome: TypeAlias = Literal["learned", "relearned", "already", "reinforced", "unlearned", "unknown"]
"""What became of a lesson; ``LessonResult`` says what each means."""

Kind = NewType("Kind", str)
"""The name of a kind of ham, one of ``model.classes`` in the settings, such as ``Kind("newsletter")``."""

Content: TypeAlias = bytes | bytearray | memoryview | str
"""A message as bytes, or a text of another kind."""

ProgramSettings: TypeAlias = "Mapping[str, object] | str | Path | None"
"""The settings of the configuration file that concern checks and lessons: a mapping such as
``{"verdict": {"spam": 0.98}}``, the path of a file, or None for the defaults."""

_SOURCE = "python"
_CLOSED = "this spam filter is closed"
_PORTION_MESSAGES = (
    1024  # that are learned in one step: some batches, of which one is read while another is written
)
_PORTION_SIZE = 32 << 20
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Clue:
    """A token with the weight that it carried.

    ``log_odds`` is ln P(token | spam) - ln P(token | ham): above 0 it is evidence for spam.
    """

    token: str
    log_odds: float


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    ``verdict`` is that of the thresholds over ``probability``, which is P(spam). ``reason`` says why in words; it
    is ``learning N/M`` while the model has too few messages to decide. ``log_odds`` is the score before
    calibration, and ``clues`` are the tokens that made it, the strongest first. ``id`` identifies the message: two
    copies of one message have the same. ``kinds`` has the probability of each kind of ham, the most probable
    first. It is empty for spam, in the result of a lesson, where the settings name no kinds, and until two of them
    have learned 20 messages.
    """

    id: str
    verdict: Verdict
    probability: float
    reason: str
    log_odds: float
    clues: tuple[Clue, ...]
    kinds: Mapping[Kind, float] = field(default_factory=dict, hash=False)

    @property
    def kind(self) -> Kind | None:
        """The most probable kind, if any is known."""
        return next(iter(self.kinds), None)


@dataclass(frozen=True, slots=True)
class LessonResult:
    """The result of a lesson, with the check of its message ``before`` and ``after`` it.

    ``outcome`` is ``learned``, ``relearned`` (it had the other label), ``already`` (it had this label, and nothing
    changed), ``reinforced``, ``unlearned``, or ``unknown`` (nothing of it was there to be unlearned).
    """

    outcome: Outcome
    before: CheckResult
    after: CheckResult


@dataclass(frozen=True, slots=True)
class _Parts:
    filter: Filter
    reader: MessageReader
    counts: CountSource

    def message(self, content: bytes | str, *, taught: bool = False) -> Message:
        if isinstance(content, str):
            return Message.from_text(content, self.reader.limits)
        return self.reader.read_taught(content) if taught else self.reader.read_incoming(content)

    async def check(self, content: bytes | str) -> CheckResult:
        return _check_result(await self.filter.check(self.message(content)))

    async def learn(
        self, content: bytes | str, label: Label | Kind, actor: str, *, reinforce: bool
    ) -> LessonResult:
        reinforcement = Reinforcement.AT_ONCE if reinforce else Reinforcement.NEVER
        message = self.message(content, taught=True)
        return _lesson_result(await self.filter.learn(message, label, _SOURCE, actor, reinforcement))

    async def learn_many(self, contents: Sequence[bytes | str], label: Label | Kind, actor: str) -> int:
        self.filter.require_class(label)  # None would take the messages back
        changed = 0

        def count(lesson: FeedbackResult | StoreIncompatible) -> None:
            nonlocal changed
            if isinstance(lesson, Exception):
                raise lesson
            changed += lesson.outcome in {FeedbackOutcome.LEARNED, FeedbackOutcome.RELEARNED}

        async def messages() -> AsyncIterator[LabelledMessage]:
            for content in contents:
                yield LabelledMessage(self.message(content, taught=True), label)

        await self.filter.learn_many(messages(), FeedbackSource(_SOURCE, actor), count)
        return changed

    async def unlearn(self, content: bytes | str, actor: str) -> LessonResult:
        return _lesson_result(await self.filter.unlearn(self.message(content, taught=True), _SOURCE, actor))

    async def learned(self) -> dict[Label | Kind, int]:
        _, totals = await self.counts.look_up_columns(())
        return cast("dict[Label | Kind, int]", learned_by_class(totals, self.filter.policy.kinds))


class _FilterThread:
    """A thread with an event loop, in which the filter of ``open_parts`` works until ``close``."""

    def __init__(self, open_parts: Callable[[], AbstractAsyncContextManager[_Parts]]) -> None:
        self._open_parts = open_parts
        self._loop = asyncio.new_event_loop()
        self._parts: asyncio.Future[_Parts] = self._loop.create_future()
        self._closing = asyncio.Event()
        self._is_open = True
        self._calls: set[asyncio.Task[object]] = set()
        # What is submitted under it comes before the end. A finalizer may close amidst it: hence an RLock.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="nbstream", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._work())

    async def _work(self) -> None:
        try:
            async with self._open_parts() as parts:
                self._parts.set_result(parts)
                await self._closing.wait()
                await self._end_calls()
        except Exception as error:
            if self._parts.done():
                raise
            self._parts.set_exception(error)
            self._parts.exception()  # it is raised where somebody waits for the parts
            await self._closing.wait()

    async def _end_calls(self) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    def submit(self, work: Callable[[_Parts], Awaitable[_Result]]) -> Future[_Result]:
        """Start ``work`` in the thread; where ``close`` cuts it short, it ends with ``ValueError``.

        Raises ``ValueError`` after ``close``, and ``RuntimeError`` where the thread could never do it.
        """
        if threading.current_thread() is self._thread or sys.is_finalizing():
            raise RuntimeError("a spam filter cannot be used by a finalizer (__del__)")
        if self._is_open and not self._thread.is_alive():
            raise RuntimeError("this spam filter was opened before os.fork: open one in this process")

        async def working() -> _Result:
            call = asyncio.current_task()
            assert call is not None
            self._calls.add(call)
            try:
                return await work(await asyncio.shield(self._parts))
            except asyncio.CancelledError:
                if self._closing.is_set():
                    raise ValueError(_CLOSED) from None
                raise
            finally:
                self._calls.discard(call)

        with self._lock:
            if not self._is_open:
                raise ValueError(_CLOSED)
            return asyncio.run_coroutine_threadsafe(working(), self._loop)

    def close(self) -> None:
        """End the thread once it has closed the model; calls that were not finished end with ``ValueError``."""
        if not self._thread.is_alive():  # after os.fork too
            return
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._loop.call_soon_threadsafe(self._closing.set)
        if threading.current_thread() is not self._thread and not sys.is_finalizing():
            self._thread.join()


class SpamFilter:
    """A spam filter over one model. Make it with ``open``, ``in_memory`` or ``connect``, and close it at the end.

    Each method may raise the errors of ``nbstream.errors``: ``StoreUnavailable`` where the model cannot be read or
    written now (nothing is half done, and the call may be repeated), ``CountsFull``, ``ValueError`` once it is
    closed, and ``TypeError`` for what is neither bytes nor a text.
    """

    def __init__(self, thread: _FilterThread) -> None:
        self._thread = thread

    @classmethod
    def open(cls, path: str | Path, settings: ProgramSettings = None) -> Self:
        """Open the model in a file, which is made where there is none.

        A lesson is on the disk when ``learn`` returns. Several processes may have the file open. All of the file
        is read, so that no damaged one is used. Raises ``StoreIncompatible`` for a file that is damaged or that
        this version cannot use, ``StoreUnavailable`` where it cannot be opened, and ``ConfigError`` for wrong
        settings.
        """
        return cls._opened(lambda: _open_file(Path(path), settings))

    @classmethod
    def in_memory(cls, settings: ProgramSettings = None) -> Self:
        """Make a model that ends with this object. Raises ``ConfigError`` for wrong settings."""
        return cls._opened(lambda: _open_memory(settings))

    @classmethod
    def connect(cls, url: str | None = None, model: str | None = None, settings: ProgramSettings = None) -> Self:
        """Use a model in Redis, which may be that of a daemon: both see each other's lessons at once.

        ``url`` is as in the setting ``redis.url``, such as ``redis://127.0.0.1:6379/0``, and ``model`` as in
        ``model.name``; None is what ``settings`` say. With the daemon's own configuration file the verdicts are
        those of the daemon. A check reads the counts from Redis, which takes a round trip. Raises
        ``StoreUnavailable``, ``StoreIncompatible`` and ``ConfigError``.
        """
        return cls._opened(lambda: _open_redis(url, model, settings))

    @classmethod
    def _opened(cls, open_parts: Callable[[], AbstractAsyncContextManager[_Parts]]) -> Self:
        thread = _FilterThread(open_parts)
        try:
            thread.submit(_nothing).result()
        except BaseException:
            thread.close()
            raise
        return cls(thread)

    def check(self, content: Content) -> CheckResult:
        """Score a message and decide; nothing is learned."""
        return self._thread.submit(partial(_Parts.check, content=_as_content(content))).result()

    def learn(
        self, content: Content, label: Label | Kind, *, actor: str = "", reinforce: bool = False
    ) -> LessonResult:
        """Learn that a message is ``label``, or of a kind of ham; a message that is another one is relearned.

        The same label again changes nothing, so that a program may repeat what it is not sure to have done. With
        ``reinforce`` it gives the message more weight where the check still contradicts the label. ``actor`` is
        who says it, for the history of a model in Redis. Raises ``ValueError`` for another label.
        """
        message, who = _as_content(content), _as_actor(actor)
        learn = partial(_Parts.learn, content=message, label=label, actor=who, reinforce=reinforce)
        return self._thread.submit(learn).result()

    def learn_many(self, contents: Iterable[Content], label: Label | Kind, *, actor: str = "") -> int:
        """Learn that all of these messages are ``label``, many times as fast as one by one.

        Returns how many of them are new or had the other label. ``contents`` is read in the caller's thread, and
        may use this object. If an error ends it, some messages are learned, each as a whole; all of them may be
        learned again. Raises ``ValueError`` for another label.
        """
        changed = 0
        for some in _portions(contents):
            learn = partial(_Parts.learn_many, contents=some, label=label, actor=_as_actor(actor))
            changed += self._thread.submit(learn).result()
        return changed

    def unlearn(self, content: Content, *, actor: str = "") -> LessonResult:
        """Take back exactly what was learned of a message."""
        unlearn = partial(_Parts.unlearn, content=_as_content(content), actor=_as_actor(actor))
        return self._thread.submit(unlearn).result()

    def learned(self) -> dict[Label | Kind, int]:
        """Return how many messages of each class are learned; ham is that of no other kind."""
        return self._thread.submit(_Parts.learned).result()

    def close(self) -> None:
        """Close the model. It may be called again. Calls of other threads end with ``ValueError``."""
        self._thread.close()

    def __enter__(self) -> Self:
        """Return this filter."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the model."""
        self.close()


def _as_content(content: Content) -> bytes | str:
    """Return the message or the text; raises ``TypeError`` for anything else."""
    if isinstance(content, str):
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(
        "a message must be bytes, as it came over the wire or lies in a file, and any other text a str: "
        f"found {type(content).__name__}"
    )


def _as_actor(actor: str) -> str:
    """Return the actor as text that can be stored; raises ``TypeError`` for anything else."""
    if not isinstance(actor, str):
        raise TypeError(f"actor must be a str: found {type(actor).__name__}")
    return actor.encode("utf-8", "replace").decode()


def _portions(contents: Iterable[Content]) -> Iterator[list[bytes | str]]:
    """Yield the messages in lists, which are bounded in number and size."""
    # The last two yield names, of messages or of header fields.
    if not isinstance(contents, Iterable) or isinstance(contents, Content | Mapping | email.message.Message):
        raise TypeError("learn_many takes several messages; learn takes one")
    portion: list[bytes | str] = []
    size = 0
    for content in map(_as_content, contents):
        portion.append(content)
        size += len(content)
        if len(portion) >= _PORTION_MESSAGES or size >= _PORTION_SIZE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


async def _nothing(_: _Parts) -> None:
    """Do nothing, once the parts are there."""


def _settings(settings: ProgramSettings) -> Settings:
    if settings is None:
        return default_settings()
    if not isinstance(settings, str | Path | Mapping):
        raise TypeError(f"settings must be a mapping, or the path of a file: found {type(settings).__name__}")
    return load_settings(Path(settings)) if isinstance(settings, str | Path) else make_settings(settings)


def _parts(settings: Settings, model: LessonStore, counts: CountSource) -> _Parts:
    spam_filter = make_filter(settings, model, counts, engine=choose_engine())
    return _Parts(spam_filter, make_message_reader(settings), counts)


@asynccontextmanager
async def _open_file(path: Path, settings: ProgramSettings) -> AsyncIterator[_Parts]:
    from nbstream.store.model.file_model import FileModel  # noqa: PLC0415 - SQLite is needed here alone

    checked = _settings(settings)
    model = FileModel(path, key_fingerprint(checked))
    try:
        yield _parts(checked, model, model)
    finally:
        model.close()


@asynccontextmanager
async def _open_memory(settings: ProgramSettings) -> AsyncIterator[_Parts]:
    checked = _settings(settings)
    model = MemoryModel(counts=make_counts(choose_engine().native_library))
    yield _parts(checked, model, model)


@asynccontextmanager
async def _open_redis(url: str | None, name: str | None, settings: ProgramSettings) -> AsyncIterator[_Parts]:
    from nbstream.daemon.assembly.parts import open_one_shot_filter  # noqa: PLC0415 - Redis is needed here alone

    checked = _settings(settings)
    if url is not None:
        checked = checked.model_copy(update={"redis": _settings({"redis": {"url": url}}).redis})
    if name is not None:
        named = _settings({"model": {"name": name}}).model.name
        checked = checked.model_copy(update={"model": checked.model.model_copy(update={"name": named})})
    async with open_one_shot_filter(checked, sign=True, reads_messages=True) as (spam_filter, model):
        yield _Parts(spam_filter, make_message_reader(checked), model)


def _check_result(check: Check) -> CheckResult:
    clues = tuple(Clue(clue.token.decode("utf-8", "replace"), clue.log_ratio) for clue in check.clues)
    kinds = {Kind(kind): share for kind, share in check.kind.probabilities.items()} if check.kind else {}
    verdict = cast("Verdict", str(check.verdict))
    return CheckResult(check.id, verdict, check.probability, check.reason, check.score, clues, kinds)


def _lesson_result(lesson: FeedbackResult) -> LessonResult:
    outcome = cast("Outcome", str(lesson.outcome))
    return LessonResult(outcome, _check_result(lesson.before), _check_result(lesson.after))

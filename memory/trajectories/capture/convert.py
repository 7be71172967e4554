"""Converts a finished run to `RunData` (TRAJ-1): turns, metadata and how it ended, with secrets masked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from recall_loop.memory.parsing.chat_messages import SourceMessage, parse_messages
from recall_loop.memory.parsing.foreign_json import clean_text, to_json_object
from recall_loop.memory.parsing.tool_calls import RawCall
from recall_loop.memory.trajectories.capture.execution_status import RunEnding, classify_execution
from recall_loop.memory.trajectories.capture.masking import Masking
from recall_loop.state.records.trajectories import RunData, RunMetadata, ToolUse, Turn, TurnMessage
from recall_loop.state.types import Role

DEFAULT_MASKING = Masking()


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Known facts about a run beside its messages; whatever is absent is read from them.

    `run_status` and `stop_reason` are the source's words for the run's state, such as `completed`, and for why it
    stopped; never a verdict or a reward. `waiting`: it was interrupted, or steps were still to come. `extra` is
    anything else that is kept with the run's metadata.
    """

    run_id: str | None = None
    task: str | None = None
    summary: str | None = None
    run_status: str | None = None
    stop_reason: str | None = None
    error: str | None = None
    waiting: bool = False
    start_time: datetime | None = None
    end_time: datetime | None = None
    duration_seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    run_type: str | None = None
    extra: dict[str, JsonValue] = field(default_factory=dict)


def convert_run(messages: Iterable[object], info: RunInfo | None = None, masking: Masking = DEFAULT_MASKING) -> RunData:
    """Convert the messages of a run, oldest first, of any kind that `chat_messages` reads.

    Raises:
        InvalidInputError: something among them is no message.
    """
    return convert_messages(parse_messages(messages), info or RunInfo(), masking)


def convert_messages(messages: Sequence[SourceMessage], info: RunInfo, masking: Masking = DEFAULT_MASKING) -> RunData:
    """Convert messages that were parsed already."""
    masker = _RunMasker(masking, messages, info)
    turns = tuple(_turn(group, masker) for group in _turn_groups(messages))
    masked = [message for turn in turns for message in turn.messages]
    error = masker.text(info.error)
    stop_reason = masker.text(info.stop_reason) or (turns[-1].stop_reason if turns else None)
    ending = RunEnding(masker.text(info.run_status), stop_reason, error, info.waiting, masked)
    return RunData(
        task=masker.text(info.task) or _task(masked),
        summary=masker.text(info.summary),
        execution=classify_execution(ending),
        metadata=_metadata(turns, masked, info, ending, masker),
        turns=turns,
    )


class _RunMasker:
    """Masks the parts of one run, also repetitions of the secrets that its calls name."""

    def __init__(self, masking: Masking, messages: Sequence[SourceMessage], info: RunInfo) -> None:
        self._masking = masking.for_texts(_texts(messages, info))
        secrets: set[str] = set()
        for message in messages:
            for call in message.calls:
                masking.collect_secrets(call.arguments, secrets)
        self._repeated = sorted(secrets, key=len, reverse=True)

    def text(self, text: str | None) -> str | None:
        """Return a text masked; None and blank text are None."""
        if text is None or not text.strip():
            return None
        return self._masking.text(clean_text(text), self._repeated)

    def content(self, text: str) -> str:
        return self._masking.text(text, self._repeated) if self._repeated or self._masking.patterns else text

    def fields(self, values: dict[str, JsonValue]) -> dict[str, JsonValue]:
        masked = self._masking.value(values, self._repeated) if values else {}
        return masked if isinstance(masked, dict) else {}

    def call(self, call: RawCall) -> ToolUse:
        given = call.arguments
        masked = self._masking.value(given, self._repeated) if given else given
        arguments = masked if isinstance(masked, dict) else str(masked)
        return ToolUse(
            name=call.name, arguments=arguments, id=call.id, error=self.text(call.error), extra=self.fields(call.extra)
        )


def _texts(messages: Iterable[SourceMessage], info: RunInfo) -> Iterator[str]:
    """Yield every text of a run that masking looks at."""
    yield repr((info.task, info.summary, info.error, info.extra, info.stop_reason, info.run_status))
    for message in messages:
        yield message.content
        if message.error or message.extra or message.stop_reason:
            yield repr((message.error, message.extra, message.stop_reason))
        for call in message.calls:
            yield repr((call.arguments, call.error, call.extra))


def _turn_groups(messages: Iterable[SourceMessage]) -> Iterator[list[SourceMessage]]:
    """Yield the messages of each turn, in order.

    Messages that name a step stay together with their neighbours of the same step. Among the others a turn
    starts where somebody speaks after a tool or after the agent, and with a user's (or system's) message
    that no such message comes right before: a question, the agent's words, its tools' results.
    """
    turn: list[SourceMessage] = []
    for message in messages:
        if turn and _starts_turn(message, turn[-1]):
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


def _starts_turn(message: SourceMessage, before: SourceMessage) -> bool:
    if message.step_id is not None or before.step_id is not None:
        return message.step_id != before.step_id
    return message.role is not Role.TOOL and before.role in (Role.TOOL, Role.ASSISTANT)


def _turn(messages: Sequence[SourceMessage], masker: _RunMasker) -> Turn:
    stop_reason = next((message.stop_reason for message in reversed(messages) if message.stop_reason), None)
    return Turn(
        step_id=messages[0].step_id,
        model=next((message.model for message in messages if message.model), None),
        input_tokens=_sum(message.input_tokens for message in messages),
        output_tokens=_sum(message.output_tokens for message in messages),
        stop_reason=masker.text(stop_reason),
        messages=tuple(_message(message, masker) for message in messages),
    )


def _message(message: SourceMessage, masker: _RunMasker) -> TurnMessage:
    fields: dict[str, object] = {"role": message.role, "content": masker.content(message.content)}
    # Most messages have few of these; leaving out the others halves the size of a message.
    if message.calls:
        fields["tool_calls"] = tuple(masker.call(call) for call in message.calls)
    if message.error:
        fields["error"] = masker.text(message.error)
    if message.extra:
        fields["extra"] = masker.fields(message.extra)
    for name in ("name", "tool_call_id", "timestamp"):
        if getattr(message, name) is not None:
            fields[name] = getattr(message, name)
    return TurnMessage.model_validate(fields)


def _metadata(
    turns: Sequence[Turn], messages: Sequence[TurnMessage], info: RunInfo, ending: RunEnding, masker: _RunMasker
) -> RunMetadata:
    times = [message.timestamp for message in messages if message.timestamp]
    start, end = info.start_time or min(times, default=None), info.end_time or max(times, default=None)
    duration = info.duration_seconds
    if duration is None and start and end and end >= start:
        duration = (end - start).total_seconds()
    models = [info.model, *(turn.model for turn in turns)]
    return RunMetadata(
        run_id=info.run_id,
        start_time=start,
        end_time=end,
        duration_seconds=duration,
        step_count=_steps(turns),
        message_count=len(messages),
        tools_used=_tools(messages),
        input_tokens=_sum((turn.input_tokens for turn in turns), info.input_tokens),
        output_tokens=_sum((turn.output_tokens for turn in turns), info.output_tokens),
        models=tuple(dict.fromkeys(model for model in models if model)),
        run_type=info.run_type,
        stop_reason=ending.stop_reason,
        error=ending.error,
        extra=masker.fields(to_json_object({**info.extra, "run_status": info.run_status})),
    )


def _steps(turns: Iterable[Turn]) -> int:
    """Count the steps of the agent; turns of one step id count once."""
    steps = [turn.step_id for turn in turns if any(message.role is Role.ASSISTANT for message in turn.messages)]
    return len({step for step in steps if step is not None}) + steps.count(None)


def _tools(messages: Sequence[TurnMessage]) -> tuple[str, ...]:
    """Return the tools that were called, in order of first use; where no call is recorded, those that answered."""
    called = [call.name for message in messages for call in message.tool_calls]
    answered = [message.name for message in messages if message.role is Role.TOOL and message.name]
    return tuple(dict.fromkeys(called or answered))


def _task(messages: Iterable[TurnMessage]) -> str:
    """Return the task: the first text of a user, else the first text of all."""
    texts = [(message.role, message.content) for message in messages if message.content.strip()]
    return next((text for role, text in texts if role is Role.USER), texts[0][1] if texts else "")


def _sum(values: Iterable[int | None], stated: int | None = None) -> int | None:
    """Return what is stated, else the sum of the values that are known."""
    known = [stated] if stated is not None else [value for value in values if value is not None]
    return sum(known) if known else None

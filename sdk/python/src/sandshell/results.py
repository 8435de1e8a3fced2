"""What commands give: results, pieces of output, ends. By hand, as these have text or bytes.

Durations in these and in `models` are the API's own, in milliseconds, where the name ends in `_ms`.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from datetime import datetime
from typing import Any, AnyStr, Generic, Literal, Self

from ._wire import to_bytes
from .errors import CommandFailed
from .models import ExitEvent, OutputEvent, StreamName, Truncated, TruncatedEvent
from .params import Encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[AnyStr]):
    """How a command ended and what it wrote; `str` or, with `text=False`, `bytes`."""

    exit_code: int
    """Exit status; 128 + n when killed by signal n."""
    stdout: AnyStr
    stderr: AnyStr
    duration_ms: int
    timed_out: bool
    """Whether `timeout` ended it."""
    left_running: int
    """How many of its children still run."""
    signal: str | None = None
    """The signal that killed it, such as `SIGKILL`."""
    oom: bool = False
    """Whether the kernel killed one of its processes because memory was used up."""
    truncated: Truncated | None = None
    """How many bytes were left out of each stream, if any."""

    @property
    def ok(self) -> bool:
        """Whether it ended with 0 in time."""
        return self.exit_code == 0 and not self.timed_out

    def check(self) -> Self:
        """Itself, or `CommandFailed` unless it is `ok`."""
        if not self.ok:
            raise CommandFailed(self)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult(Result[AnyStr]):
    """The result of an exec."""

    id: str
    """Output and record stay available under it for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult(Result[AnyStr]):
    """The result of a command in a session."""

    command_id: str
    cwd: str
    """The session's directory after it."""
    interrupted: bool
    session_state: str
    """`kept`, or what became of the session's state."""


def encoding_for(text: bool) -> Encoding:
    """What to ask the server for: text with invalid sequences replaced, or the exact bytes."""
    return "utf8" if text else "auto"


def result_fields(reply: dict[str, Any], text: bool) -> dict[str, Any]:
    """The fields of a result, with the streams as asked for."""
    fields = dict(reply)
    for stream in ("stdout", "stderr"):
        encoding = fields.pop(f"{stream}_encoding")
        if not text:
            fields[stream] = to_bytes(fields[stream], encoding)
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A piece of what a command wrote."""

    stream: StreamName
    offset: int
    """Where `data` begins in its stream."""
    data: bytes
    text: str
    """`data` as text. A character that two pieces share comes whole with the second."""
    at: datetime | None = None
    dropped: int = 0
    """How many bytes before this piece are missing because a limit dropped them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a command whose output was streamed."""

    exit_code: int | None
    """Exit status; 128 + n when killed by signal n."""
    duration_ms: int
    signal: str | None = None
    timed_out: bool = False
    oom: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended with 0 in time."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExit(Exit):
    """The end of a streamed command in a session."""

    command_id: str
    cwd: str | None
    """The session's directory after it."""
    interrupted: bool = False
    session_state: str | None = None
    """`kept`, or what became of the session's state; None when the stream had to be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalExit:
    """How the program of a terminal ended."""

    exit_code: int
    signal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOutput:
    """What code in a context wrote."""

    stream: Literal["stdout", "stderr"]
    data: bytes
    text: str


class OutputJoiner:
    """Puts the pieces of a stream that was cut and resumed together again.

    After a resume a piece may come twice, wholly or in part; its offset tells. Every byte is given
    once, in order, for each stream; bytes that a limit dropped are counted.
    """

    def __init__(self) -> None:
        self._next: dict[StreamName, int] = {}
        self._decoders: dict[StreamName, codecs.IncrementalDecoder] = {}

    def output(self, event: OutputEvent) -> Output | None:
        """The part of a piece that is new."""
        data = to_bytes(event.data, event.encoding)
        expected = self._next.get(event.stream, event.offset)
        missing = max(event.offset - expected, 0)
        seen = max(expected - event.offset, 0)
        data = data[seen:]
        if not data and not missing:
            return None
        offset = event.offset + seen
        self._next[event.stream] = offset + len(data)
        return Output(
            stream=event.stream,
            offset=offset,
            data=data,
            text=self._text(event.stream, data),
            at=event.at,
            dropped=missing,
        )

    def truncated(self, event: TruncatedEvent) -> Output | None:
        """A gap that the server tells of."""
        end = event.offset + event.bytes
        missing = end - max(self._next.get(event.stream, event.offset), event.offset)
        if missing <= 0:
            return None
        self._next[event.stream] = end
        return Output(stream=event.stream, offset=end, data=b"", text="", dropped=missing)

    def rest(self) -> list[Output]:
        """Text of characters that were never finished, when nothing more can come."""
        left = []
        for stream, decoder in self._decoders.items():
            if text := decoder.decode(b"", final=True):
                left.append(Output(stream=stream, offset=self._next[stream], data=b"", text=text))
        return left

    def _text(self, stream: StreamName, data: bytes) -> str:
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(data)


def exit_of(event: ExitEvent) -> Exit:
    return Exit(
        exit_code=event.exit_code,
        duration_ms=event.duration_ms,
        signal=event.signal,
        timed_out=event.timed_out,
        oom=event.oom,
    )

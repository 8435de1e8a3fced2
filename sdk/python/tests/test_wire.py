"""Bytes to events, JSON to objects, pieces to streams: all that needs no service."""

from __future__ import annotations

import base64
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandshell._decode import decode
from sandshell._sse import SseDecoder, SseEvent
from sandshell._wire import Settings, milliseconds, path_or_base64, query
from sandshell.errors import ProtocolError, SandshellError
from sandshell.models import FileEvent, KillReply, OutputEvent, TruncatedEvent
from sandshell.results import OutputJoiner

STREAM = (
    b': hello\nretry: 1000\n\nevent: output\nid: 5\ndata: {"a":\ndata: 1}\n\n: alive\n\n'
    b"event: exit\r\ndata: \xc3\xa9\r\n\r\nevent: cut\ndata: never"
)
EVENTS = [SseEvent("output", '{"a":\n1}', "5"), SseEvent("exit", "é", "5")]


@pytest.mark.parametrize("seed", range(50))
def test_events_however_they_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    decoder = SseDecoder()
    got = []
    at = 0
    while at < len(STREAM):
        size = chance.randint(1, 30)
        decoder.feed(STREAM[at : at + size])
        at += size
        while (event := decoder.next()) is not None:
            got.append(event)
    assert got == EVENTS and got[0].json() == {"a": 1}
    with pytest.raises(ProtocolError):
        got[1].json()


@pytest.mark.parametrize("seed", range(200))
def test_pieces_that_come_twice(seed: int) -> None:
    """Whatever is repeated after a resume, each byte is given once: the oracle is the text itself."""
    chance = random.Random(seed)
    text = "".join(chance.choice("aé€𝄞\n") for _ in range(60))
    data = text.encode()
    joiner = OutputJoiner()
    got, decoded, position = b"", "", 0
    while position < len(data):
        # Goes back by some, as a server does after a cut, then on by some.
        start = max(position - chance.randint(0, 20), 0)
        position = min(max(position, start) + chance.randint(1, 9), len(data))
        raw = data[start:position]
        event = OutputEvent(
            stream="stdout",
            offset=start,
            data=base64.b64encode(raw).decode(),
            encoding="base64",
            at=datetime.now(UTC),
        )
        piece = joiner.output(event)
        if piece is not None:
            assert piece.offset == len(got) and piece.dropped == 0
            got += piece.data
            decoded += piece.text
    decoded += "".join(piece.text for piece in joiner.rest())
    assert got == data and decoded == text


def test_what_a_limit_dropped_is_counted_once() -> None:
    joiner = OutputJoiner()
    gap = TruncatedEvent(stream="stdout", offset=0, bytes=100)
    told = joiner.truncated(gap)
    assert told is not None and (told.dropped, told.offset) == (100, 100)
    assert joiner.truncated(gap) is None
    longer = joiner.truncated(TruncatedEvent(stream="stdout", offset=50, bytes=70))
    assert longer is not None and longer.dropped == 20


def test_decoding() -> None:
    event = decode(
        FileEvent,
        {
            "at": "2026-01-02T03:04:05.123456789Z",
            "change": "moved",
            "directory": False,
            "from": "a",
            "path": "b",
            "new": 1,
        },
    )
    assert event.from_ == "a" and event.at.year == 2026 and event.at.utcoffset() == timedelta(0)
    reply = decode(KillReply, {"killed": 1, "method": "term", "survivors": [{"pid": 2, "command": "x"}]})
    assert reply.survivors[0].pid == 2
    wrongs: list[object] = [{"killed": 1}, [], None, {"killed": 1, "method": "x", "survivors": [5]}]
    for wrong in wrongs:
        with pytest.raises(ProtocolError):
            decode(KillReply, wrong)


def test_values() -> None:
    assert (
        milliseconds(0.0001) == 1
        and milliseconds(timedelta(seconds=2)) == 2000
        and milliseconds(None) is None
    )
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError):
            milliseconds(wrong)
    assert path_or_base64(b"a\xff") == (None, "Yf8=") and path_or_base64("é") == ("é", None)
    assert query({"a": True, "b": None, "c": [1, "x"], "d": 0}) == [
        ("a", "true"),
        ("c", "1"),
        ("c", "x"),
        ("d", "0"),
    ]


def test_where_the_service_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("sk_file\n")
    monkeypatch.setenv("SANDSHELL_URL", "https://hub.example.org/base/")
    monkeypatch.setenv("SANDSHELL_TOKEN_FILE", str(file))
    settings = Settings.of(None, None)
    assert (settings.base_url, settings.token) == ("https://hub.example.org/base", "sk_file")
    assert settings.websocket_url("/v1/x") == "wss://hub.example.org/base/v1/x" and not settings.is_local()
    monkeypatch.setenv("SANDSHELL_TOKEN", "sk_env")
    assert Settings.of(None, None).token == "sk_env" and Settings.of(None, "sk_arg").token == "sk_arg"
    monkeypatch.delenv("SANDSHELL_URL")
    assert Settings.of(None, None).base_url == "http://127.0.0.1:4020"
    assert Settings.of("unix:/run/x", None).unix_socket == "/run/x"
    assert Settings.of("unix:///run/x", None).unix_socket == "/run/x"
    for wrong in ("hub", "ftp://x", "http://"):
        with pytest.raises(ValueError):
            Settings.of(wrong, None)


def test_a_token_file_without_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    monkeypatch.setenv("SANDSHELL_TOKEN_FILE", str(file))
    for content in (None, b" \n", b"\xff"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(SandshellError, match=f"{file} .SANDSHELL_TOKEN_FILE. (cannot be read|is empty)"):
            Settings.of(None, None)
        assert Settings.of(None, "sk_arg").token == "sk_arg"

# Written by scripts/generate from _async/test_scenarios.py: change that one.
"""The scenarios that every client of Sandshell plays, on this one."""

from __future__ import annotations

import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import pytest

import scenario
from live import PATIENCE, Live, isolation, without
from sandshell import (
    ApiError,
    Context,
    Hub,
    Process,
    Sandbox,
    Session,
    Terminal,
    Watch,
    CodeOutput,
    ProcessExited,
    WaitTimeout,
)
from sandshell.models import RunError, RunResult

from ._io import Begun, pause

pytestmark = pytest.mark.anyio

# Calls without a counterpart here; none, and it must stay so.
MISSING: set[str] = set()

Call = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize("name", scenario.names())
def test_scenario(name: str, live: Live) -> None:
    played = scenario.load(name)
    kept: dict[str, Any] = {"random": secrets.token_hex(4)}
    with Hub() as hub:
        spec = scenario.arguments(scenario.filled(played.get("sandbox", {}), kept))
        with Sandbox.create(hub=hub, isolation=isolation(), **spec) as sandbox:
            kept["sandbox"] = sandbox.id
            if missing := without(sandbox.record.protections, played.get("requires", [])):
                pytest.skip(f"the sandbox is without {', '.join(missing)}, which this scenario requires")
            with ExitStack() as ends:
                Player(hub, sandbox, live, kept, ends).play(played["steps"])


def test_scenarios_are_found() -> None:
    assert scenario.names(), f"no scenarios in {scenario.SCENARIOS}"


class Player:
    """Plays the steps of one scenario on one sandbox."""

    def __init__(
        self,
        hub: Hub,
        sandbox: Sandbox,
        live: Live,
        kept: dict[str, Any],
        ends: ExitStack,
    ) -> None:
        self.hub, self.sandbox, self.live, self.kept, self.ends = hub, sandbox, live, kept, ends
        self.begun: dict[str, Begun] = {}
        self.watches: dict[str, Watch] = {}
        self.terminals: dict[str, Terminal] = {}
        self.seen: dict[str, bytes] = {}
        self.there: dict[str, bool] = {}

    def play(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if missing := [program for program in step.get("needs", []) if not self.has(program)]:
                print(f"SKIPPED: {step['name']}: {', '.join(missing)} not in the sandbox")
                continue
            deadline = time.monotonic() + PATIENCE
            while reason := self.try_step(step):
                if not step.get("eventually") or time.monotonic() > deadline:
                    raise AssertionError(f"step {step['name']!r}: {reason}")
                pause(0.02)

    def has(self, program: str) -> bool:
        if program not in self.there:
            self.there[program] = (self.sandbox.exec(["sh", "-c", f"command -v {program}"])).ok
        return self.there[program]

    def try_step(self, step: dict[str, Any]) -> str | None:
        """Makes the call of a step; why it was not as expected."""
        args = scenario.filled(step.get("args", {}), self.kept)
        call = self.call(step["call"])
        if "start" in step:
            self.begun[step["start"]] = Begun(lambda: call(args))
            return None
        try:
            result = scenario.as_json(call(args))
        except ApiError as error:
            if "error" not in step:
                return f"it failed: {error}"
            got = {**error.problem, "status": error.status, "code": error.code}
            return scenario.unlike(got, scenario.filled(step["error"], self.kept), "problem")
        if "error" in step:
            return f"it gave {result!r} and should have failed"
        wanted = scenario.filled(step.get("expect"), self.kept)
        if "expect" in step and (reason := scenario.unlike(result, wanted)):
            return reason
        for name, path in step.get("save", {}).items():
            self.kept[name] = scenario.part(result, path)
        return None

    def call(self, name: str) -> Call:
        """The method `surface_verb`, or the SDK's own method where arguments and results agree."""
        if name == "join":
            return self.join
        by_hand = getattr(self, name.replace(".", "_"), None)
        if by_hand is not None:
            return by_hand  # type: ignore[no-any-return]
        surface, verb = name.split(".")
        direct: dict[str, Any] = {
            "file": self.sandbox.files,
            "git": self.sandbox.git,
            "port": self.sandbox.ports,
            "backup": self.sandbox.backups,
        }
        finders: dict[str, Any] = {
            "sandbox": self.find_sandbox,
            "process": self.sandbox.get_process,
            "session": self.sandbox.get_session,
            "terminal": self.terminal,
            "context": self.sandbox.get_context,
        }
        if surface in direct:
            method = getattr(direct[surface], verb)

            def on_service(args: dict[str, Any]) -> Any:
                return method(**scenario.arguments(args))

            return on_service
        find = finders[surface]

        def on_thing(args: dict[str, Any]) -> Any:
            found = find(args.pop(surface, self.sandbox.id))
            return getattr(found, verb)(**scenario.arguments(args))

        return on_thing

    def join(self, args: dict[str, Any]) -> Any:
        return self.begun.pop(args["start"]).result()

    # ── Sandboxes, tokens ────────────────────────────────────────────────────────────────────────

    def find_sandbox(self, id: str) -> Sandbox:
        if id == self.sandbox.id:
            return self.sandbox
        return Sandbox.connect(id, hub=self.hub)

    def sandbox_create(self, args: dict[str, Any]) -> Any:
        made = Sandbox.create(hub=self.hub, isolation=isolation(), **scenario.arguments(args))
        return (self.ends.enter_context(made)).record

    def sandbox_get(self, args: dict[str, Any]) -> Any:
        return (self.find_sandbox(args.get("sandbox", self.sandbox.id))).refresh()

    def sandbox_list(self, args: dict[str, Any]) -> Any:
        labels = dict([args["label"].split("=", 1)]) if "label" in args else None
        return items(self.hub.list_sandboxes(labels=labels, state=args.get("state")))

    def token_create(self, args: dict[str, Any]) -> Any:
        return self.hub.create_token(**args)

    def token_list(self, args: dict[str, Any]) -> Any:
        return items(self.hub.list_tokens())

    def token_revoke(self, args: dict[str, Any]) -> Any:
        return self.hub.revoke_token(args["token"])

    # ── Exec, processes ──────────────────────────────────────────────────────────────────────────

    def exec_run(self, args: dict[str, Any]) -> Any:
        return result_of(self.sandbox.exec, args)

    def exec_stream(self, args: dict[str, Any]) -> Any:
        return joined(self.sandbox.exec_stream(**scenario.arguments(args)))

    def process_start(self, args: dict[str, Any]) -> Any:
        return (self.sandbox.start_process(**scenario.arguments(args))).record

    def process(self, args: dict[str, Any]) -> Process:
        return self.sandbox.get_process(args.pop("process"))

    def process_get(self, args: dict[str, Any]) -> Any:
        return (self.process(args)).record

    def process_list(self, args: dict[str, Any]) -> Any:
        return items(self.sandbox.list_processes(**args))

    def process_output(self, args: dict[str, Any]) -> Any:
        return joined((self.process(args)).logs(**args))

    def process_read(self, args: dict[str, Any]) -> Any:
        encoding = args.pop("encoding", None)
        return scenario.bytes_result((self.process(args)).read(**args), encoding)

    def process_stdin(self, args: dict[str, Any]) -> Any:
        process = self.process(args)
        return {"offset": process.write(**scenario.arguments(args))}

    def process_close_stdin(self, args: dict[str, Any]) -> Any:
        return {"offset": (self.process(args)).close_stdin()}

    def process_wait(self, args: dict[str, Any]) -> Any:
        process = self.process(args)
        given = scenario.arguments(args)
        timeout = given.get("timeout")
        line, outcome = None, "exit"
        try:
            if "log" in given:
                line, outcome = process.wait_for_log(**given["log"], timeout=timeout), "log"
            elif "port" in given:
                process.wait_for_port(**given["port"], timeout=timeout)
                outcome = "port"
            else:
                process.wait(timeout)
        except WaitTimeout:
            outcome = "timeout"
        except ProcessExited:
            outcome = "exit"
        timed_out = outcome == "timeout"
        return {"outcome": outcome, "timed_out": timed_out, "line": line, "process": process.record}

    # ── Sessions ─────────────────────────────────────────────────────────────────────────────────

    def session(self, args: dict[str, Any]) -> Session:
        return self.sandbox.get_session(args.pop("session"))

    def session_create(self, args: dict[str, Any]) -> Any:
        return (self.sandbox.create_session(**scenario.arguments(args))).record

    def session_list(self, args: dict[str, Any]) -> Any:
        return items(self.sandbox.list_sessions())

    def session_get(self, args: dict[str, Any]) -> Any:
        return (self.session(args)).record

    def session_fork(self, args: dict[str, Any]) -> Any:
        return ((self.session(args)).fork(**args)).record

    def session_exec(self, args: dict[str, Any]) -> Any:
        return result_of((self.session(args)).exec, args)

    def session_stream(self, args: dict[str, Any]) -> Any:
        stream = (self.session(args)).exec_stream(**scenario.arguments(args))
        return joined(stream)

    def session_commands(self, args: dict[str, Any]) -> Any:
        return items((self.session(args)).commands())

    def session_output(self, args: dict[str, Any]) -> Any:
        session = self.session(args)
        return session.read_output(args.pop("command"), **args)

    # ── Terminals ────────────────────────────────────────────────────────────────────────────────

    def terminal(self, id: str) -> Terminal:
        if id not in self.terminals:
            found = self.sandbox.get_terminal(id)
            self.terminals[id] = self.ends.enter_context(found)
        return self.terminals[id]

    def terminal_create(self, args: dict[str, Any]) -> Any:
        return (self.sandbox.terminal(**scenario.arguments(args))).record

    def terminal_list(self, args: dict[str, Any]) -> Any:
        return items(self.sandbox.list_terminals())

    def terminal_get(self, args: dict[str, Any]) -> Any:
        return (self.sandbox.get_terminal(args["terminal"])).record

    def terminal_type(self, args: dict[str, Any]) -> None:
        (self.terminal(args["terminal"])).write(args["data"])

    def terminal_read_until(self, args: dict[str, Any]) -> Any:
        id, text = args["terminal"], args["text"].encode()
        seen = self.seen.get(id, b"")
        if text not in seen:
            seen += (self.terminal(id)).read_until(text, timeout=PATIENCE)
            self.seen[id] = seen
        return seen[: seen.find(text) + len(text)]

    # ── Files, watches ───────────────────────────────────────────────────────────────────────────

    def file_write(self, args: dict[str, Any]) -> Any:
        given = scenario.arguments(args)
        return self.sandbox.files.write(given.pop("path"), given.pop("data"), **given)

    def file_read(self, args: dict[str, Any]) -> Any:
        encoding = args.pop("encoding", None)
        if "range" in args:
            first, last = args.pop("range")
            args.update(offset=first, length=last - first + 1)
        return scenario.bytes_result(self.sandbox.files.read_bytes(**args), encoding)

    def file_list(self, args: dict[str, Any]) -> Any:
        return {"items": self.sandbox.files.list(**args)}

    def file_remove(self, args: dict[str, Any]) -> Any:
        return {"removed": self.sandbox.files.remove(**args)}

    def file_chmod(self, args: dict[str, Any]) -> Any:
        return {"changed": self.sandbox.files.chmod(**args)}

    def file_pack(self, args: dict[str, Any]) -> Any:
        return scenario.bytes_result(self.sandbox.files.pack(**args), "base64")

    def file_unpack(self, args: dict[str, Any]) -> Any:
        given = scenario.arguments(args)
        return self.sandbox.files.unpack(given.pop("data"), **given)

    def watch_open(self, args: dict[str, Any]) -> Any:
        name = args.pop("as")
        opened = self.sandbox.files.watch(**args)
        self.watches[name] = self.ends.enter_context(opened)
        return opened.ready

    def watch_until(self, args: dict[str, Any]) -> Any:
        return until(self.watches[args["watch"]], args["event"])

    def watch_close(self, args: dict[str, Any]) -> None:
        self.watches.pop(args["watch"]).close()

    # ── Git, backups, ports ──────────────────────────────────────────────────────────────────────

    def git_log(self, args: dict[str, Any]) -> Any:
        return items(self.sandbox.git.log(**args))

    def backup_list(self, args: dict[str, Any]) -> Any:
        return items(self.sandbox.backups.list())

    def backup_get(self, args: dict[str, Any]) -> Any:
        return self.sandbox.backups.get(args["backup"])

    def backup_restore(self, args: dict[str, Any]) -> Any:
        return self.sandbox.backups.restore(args.pop("backup"), **args)

    def backup_delete(self, args: dict[str, Any]) -> Any:
        return self.sandbox.backups.delete(args["backup"])

    def port_list(self, args: dict[str, Any]) -> Any:
        return items(self.sandbox.ports.list())

    def port_wait(self, args: dict[str, Any]) -> Any:
        try:
            port = self.sandbox.ports.wait(**scenario.arguments(args))
        except WaitTimeout:
            return {"ready": False, "timed_out": True}
        return {"ready": True, "timed_out": False, "port": port}

    def port_fetch(self, args: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self.sandbox.ports.proxy_url(args["port"], args["path"]),
            data=args["data"].encode() if "data" in args else None,
            method=args.get("method"),
            headers={"authorization": f"Bearer {self.live.token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return {"status": answer.status, "body": answer.read().decode()}
        except urllib.error.HTTPError as answer:
            with answer:
                return {"status": answer.code, "body": answer.read().decode()}

    # ── Contexts, environment ────────────────────────────────────────────────────────────────────

    def context(self, args: dict[str, Any]) -> Context:
        return self.sandbox.get_context(args.pop("context"))

    def context_create(self, args: dict[str, Any]) -> Any:
        return (self.sandbox.create_context(**scenario.arguments(args))).record

    def context_list(self, args: dict[str, Any]) -> Any:
        return items(self.sandbox.list_contexts())

    def context_get(self, args: dict[str, Any]) -> Any:
        return (self.context(args)).record

    def context_stream(self, args: dict[str, Any]) -> Any:
        run = (self.context(args)).run_stream(**scenario.arguments(args))
        found: dict[str, Any] = {"stdout": "", "stderr": "", "results": [], "error": None}
        for item in run:
            if isinstance(item, CodeOutput):
                found[item.stream] += item.text
            elif isinstance(item, RunResult):
                found["results"].append(item)
            elif isinstance(item, RunError):
                found["error"] = item
        return {**found, **scenario.as_json(run.end)}

    def env_get(self, args: dict[str, Any]) -> Any:
        return self.sandbox.env()

    def env_update(self, args: dict[str, Any]) -> Any:
        return self.sandbox.set_env(args["env"])

    def events_until(self, args: dict[str, Any]) -> Any:
        with self.sandbox.events(from_=args.get("from"), types=args.get("types")) as events:
            return until(events, args["event"])

    def stats_get(self, args: dict[str, Any]) -> Any:
        return self.sandbox.stats()

    def protections_get(self, args: dict[str, Any]) -> Any:
        return {"protections": self.sandbox.protections()}


def items(found: Iterator[Any]) -> dict[str, Any]:
    return {"items": [item for item in found]}


def until(events: Any, wanted: Any) -> dict[str, Any]:
    """All events up to and with the first that is like `wanted`."""
    seen = []
    for event in events:
        seen.append(scenario.as_json(event))
        if scenario.unlike(seen[-1], wanted) is None:
            return {"events": seen}
    raise AssertionError(f"the events ended with {seen[-1:]}, and none was like {wanted!r}")


def result_of(run: Any, args: dict[str, Any]) -> Any:
    """A result with the encodings that the API's has."""
    encoding = args.pop("encoding", "auto")
    result = run(**scenario.arguments(args), text=encoding == "utf8")
    found = scenario.as_json(result)
    for stream in ("stdout", "stderr"):
        data = getattr(result, stream)
        if isinstance(data, bytes):
            told = scenario.bytes_result(data, encoding)
            found[stream], found[f"{stream}_encoding"] = told["data"], told["encoding"]
        else:
            found[f"{stream}_encoding"] = "utf8"
    return found


def joined(stream: Any) -> dict[str, Any]:
    """The pieces of a stream put together, with how it ended."""
    found: dict[str, Any] = {"stdout": "", "stderr": ""}
    dropped = {"stdout_bytes": 0, "stderr_bytes": 0}
    for piece in stream:
        found[piece.stream] += piece.text
        dropped[f"{piece.stream}_bytes"] += piece.dropped
    if any(dropped.values()):
        found["truncated"] = dropped
    return {**found, **(scenario.as_json(stream.exit) or {})}

"""The scenarios that every client of Sandshell plays, on this one."""

from __future__ import annotations

import secrets
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

import scenario
from live import PATIENCE, Live, isolation, without
from sandshell import (
    ApiError,
    AsyncContext,
    AsyncHub,
    AsyncProcess,
    AsyncSandbox,
    AsyncSession,
    AsyncTerminal,
    AsyncWatch,
    CodeOutput,
    ProcessExited,
    WaitTimeout,
)
from sandshell.models import RunError, RunResult

from ._io import Begun, pause

pytestmark = pytest.mark.anyio

# Calls without a counterpart here; none, and it must stay so.
MISSING: set[str] = set()

Call = Callable[[dict[str, Any]], Awaitable[Any]]


@pytest.mark.parametrize("name", scenario.names())
async def test_scenario(name: str, live: Live) -> None:
    played = scenario.load(name)
    kept: dict[str, Any] = {"random": secrets.token_hex(4)}
    async with AsyncHub() as hub:
        spec = scenario.arguments(scenario.filled(played.get("sandbox", {}), kept))
        async with await AsyncSandbox.create(hub=hub, isolation=isolation(), **spec) as sandbox:
            kept["sandbox"] = sandbox.id
            if missing := without(sandbox.record.protections, played.get("requires", [])):
                pytest.skip(f"the sandbox is without {', '.join(missing)}, which this scenario requires")
            async with AsyncExitStack() as ends:
                await Player(hub, sandbox, live, kept, ends).play(played["steps"])


def test_scenarios_are_found() -> None:
    assert scenario.names(), f"no scenarios in {scenario.SCENARIOS}"


class Player:
    """Plays the steps of one scenario on one sandbox."""

    def __init__(
        self,
        hub: AsyncHub,
        sandbox: AsyncSandbox,
        live: Live,
        kept: dict[str, Any],
        ends: AsyncExitStack,
    ) -> None:
        self.hub, self.sandbox, self.live, self.kept, self.ends = hub, sandbox, live, kept, ends
        self.begun: dict[str, Begun] = {}
        self.watches: dict[str, AsyncWatch] = {}
        self.terminals: dict[str, AsyncTerminal] = {}
        self.seen: dict[str, bytes] = {}
        self.there: dict[str, bool] = {}

    async def play(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            if missing := [program for program in step.get("needs", []) if not await self.has(program)]:
                print(f"SKIPPED: {step['name']}: {', '.join(missing)} not in the sandbox")
                continue
            deadline = time.monotonic() + PATIENCE
            while reason := await self.try_step(step):
                if not step.get("eventually") or time.monotonic() > deadline:
                    raise AssertionError(f"step {step['name']!r}: {reason}")
                await pause(0.02)

    async def has(self, program: str) -> bool:
        if program not in self.there:
            self.there[program] = (await self.sandbox.exec(["sh", "-c", f"command -v {program}"])).ok
        return self.there[program]

    async def try_step(self, step: dict[str, Any]) -> str | None:
        """Makes the call of a step; why it was not as expected."""
        args = scenario.filled(step.get("args", {}), self.kept)
        call = self.call(step["call"])
        if "start" in step:
            self.begun[step["start"]] = Begun(lambda: call(args))
            return None
        try:
            result = scenario.as_json(await call(args))
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

            async def on_service(args: dict[str, Any]) -> Any:
                return await method(**scenario.arguments(args))

            return on_service
        find = finders[surface]

        async def on_thing(args: dict[str, Any]) -> Any:
            found = await find(args.pop(surface, self.sandbox.id))
            return await getattr(found, verb)(**scenario.arguments(args))

        return on_thing

    async def join(self, args: dict[str, Any]) -> Any:
        return await self.begun.pop(args["start"]).result()

    # ── Sandboxes, tokens ────────────────────────────────────────────────────────────────────────

    async def find_sandbox(self, id: str) -> AsyncSandbox:
        if id == self.sandbox.id:
            return self.sandbox
        return await AsyncSandbox.connect(id, hub=self.hub)

    async def sandbox_create(self, args: dict[str, Any]) -> Any:
        made = await AsyncSandbox.create(hub=self.hub, isolation=isolation(), **scenario.arguments(args))
        return (await self.ends.enter_async_context(made)).record

    async def sandbox_get(self, args: dict[str, Any]) -> Any:
        return await (await self.find_sandbox(args.get("sandbox", self.sandbox.id))).refresh()

    async def sandbox_list(self, args: dict[str, Any]) -> Any:
        labels = dict([args["label"].split("=", 1)]) if "label" in args else None
        return await items(self.hub.list_sandboxes(labels=labels, state=args.get("state")))

    async def token_create(self, args: dict[str, Any]) -> Any:
        return await self.hub.create_token(**args)

    async def token_list(self, args: dict[str, Any]) -> Any:
        return await items(self.hub.list_tokens())

    async def token_revoke(self, args: dict[str, Any]) -> Any:
        return await self.hub.revoke_token(args["token"])

    # ── Exec, processes ──────────────────────────────────────────────────────────────────────────

    async def exec_run(self, args: dict[str, Any]) -> Any:
        return await result_of(self.sandbox.exec, args)

    async def exec_stream(self, args: dict[str, Any]) -> Any:
        return await joined(self.sandbox.exec_stream(**scenario.arguments(args)))

    async def process_start(self, args: dict[str, Any]) -> Any:
        return (await self.sandbox.start_process(**scenario.arguments(args))).record

    async def process(self, args: dict[str, Any]) -> AsyncProcess:
        return await self.sandbox.get_process(args.pop("process"))

    async def process_get(self, args: dict[str, Any]) -> Any:
        return (await self.process(args)).record

    async def process_list(self, args: dict[str, Any]) -> Any:
        return await items(self.sandbox.list_processes(**args))

    async def process_output(self, args: dict[str, Any]) -> Any:
        return await joined((await self.process(args)).logs(**args))

    async def process_read(self, args: dict[str, Any]) -> Any:
        encoding = args.pop("encoding", None)
        return scenario.bytes_result(await (await self.process(args)).read(**args), encoding)

    async def process_stdin(self, args: dict[str, Any]) -> Any:
        process = await self.process(args)
        return {"offset": await process.write(**scenario.arguments(args))}

    async def process_close_stdin(self, args: dict[str, Any]) -> Any:
        return {"offset": await (await self.process(args)).close_stdin()}

    async def process_wait(self, args: dict[str, Any]) -> Any:
        process = await self.process(args)
        given = scenario.arguments(args)
        timeout = given.get("timeout")
        line, outcome = None, "exit"
        try:
            if "log" in given:
                line, outcome = await process.wait_for_log(**given["log"], timeout=timeout), "log"
            elif "port" in given:
                await process.wait_for_port(**given["port"], timeout=timeout)
                outcome = "port"
            else:
                await process.wait(timeout)
        except WaitTimeout:
            outcome = "timeout"
        except ProcessExited:
            outcome = "exit"
        timed_out = outcome == "timeout"
        return {"outcome": outcome, "timed_out": timed_out, "line": line, "process": process.record}

    # ── Sessions ─────────────────────────────────────────────────────────────────────────────────

    async def session(self, args: dict[str, Any]) -> AsyncSession:
        return await self.sandbox.get_session(args.pop("session"))

    async def session_create(self, args: dict[str, Any]) -> Any:
        return (await self.sandbox.create_session(**scenario.arguments(args))).record

    async def session_list(self, args: dict[str, Any]) -> Any:
        return await items(self.sandbox.list_sessions())

    async def session_get(self, args: dict[str, Any]) -> Any:
        return (await self.session(args)).record

    async def session_fork(self, args: dict[str, Any]) -> Any:
        return (await (await self.session(args)).fork(**args)).record

    async def session_exec(self, args: dict[str, Any]) -> Any:
        return await result_of((await self.session(args)).exec, args)

    async def session_stream(self, args: dict[str, Any]) -> Any:
        stream = (await self.session(args)).exec_stream(**scenario.arguments(args))
        return await joined(stream)

    async def session_commands(self, args: dict[str, Any]) -> Any:
        return await items((await self.session(args)).commands())

    async def session_output(self, args: dict[str, Any]) -> Any:
        session = await self.session(args)
        return await session.read_output(args.pop("command"), **args)

    # ── Terminals ────────────────────────────────────────────────────────────────────────────────

    async def terminal(self, id: str) -> AsyncTerminal:
        if id not in self.terminals:
            found = await self.sandbox.get_terminal(id)
            self.terminals[id] = await self.ends.enter_async_context(found)
        return self.terminals[id]

    async def terminal_create(self, args: dict[str, Any]) -> Any:
        return (await self.sandbox.terminal(**scenario.arguments(args))).record

    async def terminal_list(self, args: dict[str, Any]) -> Any:
        return await items(self.sandbox.list_terminals())

    async def terminal_get(self, args: dict[str, Any]) -> Any:
        return (await self.sandbox.get_terminal(args["terminal"])).record

    async def terminal_type(self, args: dict[str, Any]) -> None:
        await (await self.terminal(args["terminal"])).write(args["data"])

    async def terminal_read_until(self, args: dict[str, Any]) -> Any:
        id, text = args["terminal"], args["text"].encode()
        seen = self.seen.get(id, b"")
        if text not in seen:
            seen += await (await self.terminal(id)).read_until(text, timeout=PATIENCE)
            self.seen[id] = seen
        return seen[: seen.find(text) + len(text)]

    # ── Files, watches ───────────────────────────────────────────────────────────────────────────

    async def file_write(self, args: dict[str, Any]) -> Any:
        given = scenario.arguments(args)
        return await self.sandbox.files.write(given.pop("path"), given.pop("data"), **given)

    async def file_read(self, args: dict[str, Any]) -> Any:
        encoding = args.pop("encoding", None)
        if "range" in args:
            first, last = args.pop("range")
            args.update(offset=first, length=last - first + 1)
        return scenario.bytes_result(await self.sandbox.files.read_bytes(**args), encoding)

    async def file_list(self, args: dict[str, Any]) -> Any:
        return {"items": await self.sandbox.files.list(**args)}

    async def file_remove(self, args: dict[str, Any]) -> Any:
        return {"removed": await self.sandbox.files.remove(**args)}

    async def file_chmod(self, args: dict[str, Any]) -> Any:
        return {"changed": await self.sandbox.files.chmod(**args)}

    async def file_pack(self, args: dict[str, Any]) -> Any:
        return scenario.bytes_result(await self.sandbox.files.pack(**args), "base64")

    async def file_unpack(self, args: dict[str, Any]) -> Any:
        given = scenario.arguments(args)
        return await self.sandbox.files.unpack(given.pop("data"), **given)

    async def watch_open(self, args: dict[str, Any]) -> Any:
        name = args.pop("as")
        opened = await self.sandbox.files.watch(**args)
        self.watches[name] = await self.ends.enter_async_context(opened)
        return opened.ready

    async def watch_until(self, args: dict[str, Any]) -> Any:
        return await until(self.watches[args["watch"]], args["event"])

    async def watch_close(self, args: dict[str, Any]) -> None:
        await self.watches.pop(args["watch"]).aclose()

    # ── Git, backups, ports ──────────────────────────────────────────────────────────────────────

    async def git_log(self, args: dict[str, Any]) -> Any:
        return await items(self.sandbox.git.log(**args))

    async def backup_list(self, args: dict[str, Any]) -> Any:
        return await items(self.sandbox.backups.list())

    async def backup_get(self, args: dict[str, Any]) -> Any:
        return await self.sandbox.backups.get(args["backup"])

    async def backup_restore(self, args: dict[str, Any]) -> Any:
        return await self.sandbox.backups.restore(args.pop("backup"), **args)

    async def backup_delete(self, args: dict[str, Any]) -> Any:
        return await self.sandbox.backups.delete(args["backup"])

    async def port_list(self, args: dict[str, Any]) -> Any:
        return await items(self.sandbox.ports.list())

    async def port_wait(self, args: dict[str, Any]) -> Any:
        try:
            port = await self.sandbox.ports.wait(**scenario.arguments(args))
        except WaitTimeout:
            return {"ready": False, "timed_out": True}
        return {"ready": True, "timed_out": False, "port": port}

    async def port_fetch(self, args: dict[str, Any]) -> Any:
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

    async def context(self, args: dict[str, Any]) -> AsyncContext:
        return await self.sandbox.get_context(args.pop("context"))

    async def context_create(self, args: dict[str, Any]) -> Any:
        return (await self.sandbox.create_context(**scenario.arguments(args))).record

    async def context_list(self, args: dict[str, Any]) -> Any:
        return await items(self.sandbox.list_contexts())

    async def context_get(self, args: dict[str, Any]) -> Any:
        return (await self.context(args)).record

    async def context_stream(self, args: dict[str, Any]) -> Any:
        run = (await self.context(args)).run_stream(**scenario.arguments(args))
        found: dict[str, Any] = {"stdout": "", "stderr": "", "results": [], "error": None}
        async for item in run:
            if isinstance(item, CodeOutput):
                found[item.stream] += item.text
            elif isinstance(item, RunResult):
                found["results"].append(item)
            elif isinstance(item, RunError):
                found["error"] = item
        return {**found, **scenario.as_json(run.end)}

    async def env_get(self, args: dict[str, Any]) -> Any:
        return await self.sandbox.env()

    async def env_update(self, args: dict[str, Any]) -> Any:
        return await self.sandbox.set_env(args["env"])

    async def events_until(self, args: dict[str, Any]) -> Any:
        async with self.sandbox.events(from_=args.get("from"), types=args.get("types")) as events:
            return await until(events, args["event"])

    async def stats_get(self, args: dict[str, Any]) -> Any:
        return await self.sandbox.stats()

    async def protections_get(self, args: dict[str, Any]) -> Any:
        return {"protections": await self.sandbox.protections()}


async def items(found: AsyncIterator[Any]) -> dict[str, Any]:
    return {"items": [item async for item in found]}


async def until(events: Any, wanted: Any) -> dict[str, Any]:
    """All events up to and with the first that is like `wanted`."""
    seen = []
    async for event in events:
        seen.append(scenario.as_json(event))
        if scenario.unlike(seen[-1], wanted) is None:
            return {"events": seen}
    raise AssertionError(f"the events ended with {seen[-1:]}, and none was like {wanted!r}")


async def result_of(run: Any, args: dict[str, Any]) -> Any:
    """A result with the encodings that the API's has."""
    encoding = args.pop("encoding", "auto")
    result = await run(**scenario.arguments(args), text=encoding == "utf8")
    found = scenario.as_json(result)
    for stream in ("stdout", "stderr"):
        data = getattr(result, stream)
        if isinstance(data, bytes):
            told = scenario.bytes_result(data, encoding)
            found[stream], found[f"{stream}_encoding"] = told["data"], told["encoding"]
        else:
            found[f"{stream}_encoding"] = "utf8"
    return found


async def joined(stream: Any) -> dict[str, Any]:
    """The pieces of a stream put together, with how it ended."""
    found: dict[str, Any] = {"stdout": "", "stderr": ""}
    dropped = {"stdout_bytes": 0, "stderr_bytes": 0}
    async for piece in stream:
        found[piece.stream] += piece.text
        dropped[f"{piece.stream}_bytes"] += piece.dropped
    if any(dropped.values()):
        found["truncated"] = dropped
    return {**found, **(scenario.as_json(stream.exit) or {})}

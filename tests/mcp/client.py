"""Drives `sandshell mcp` and `/mcp` of a hub with the official Python client, as an agent would.

    client.py (stdio PROGRAM | http URL) (auto | legacy) (everything | scoped OWN OTHER)

A token for HTTP comes from SANDSHELL_TOKEN. Ends with 0 when all is as it should be; says what was seen.
"""

import json
import os
import sys

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def check(holds, *seen):
    if not holds:
        raise AssertionError(repr(seen))


class Agent:
    """A client that knows one sandbox."""

    def __init__(self, client, sandbox):
        self.client = client
        self.sandbox = sandbox

    async def result(self, tool, progress=None, /, **arguments):
        arguments.setdefault("sandbox", self.sandbox)
        return await self.client.call_tool(tool, arguments, progress_callback=progress)

    async def __call__(self, tool, progress=None, /, **arguments):
        result = await self.result(tool, progress, **arguments)
        check(not result.is_error, tool, arguments, result)
        check(result.content[0].text, tool, result)
        return result.structured_content

    async def refused(self, tool, code, /, **arguments):
        result = await self.result(tool, **arguments)
        check(result.is_error, tool, arguments, result)
        error = result.structured_content["error"]
        check(error["code"] == code, tool, arguments, error)
        check(f"error: {error['detail']}" in result.content[0].text, result)
        return error


async def keeps_state(agent):
    """Ten calls of one session: variables, functions and the directory stay."""
    await agent("run_in_session", command="n=0; step() { n=$((n + 1)); mkdir -p d$n; cd d$n; }")
    for turn in range(1, 11):
        got = await agent("run_in_session", command="step; echo $n; echo late >&2")
        check(got["stdout"]["data"] == f"{turn}\n", got)
        check(got["stderr"]["data"] == "late\n" and got["exit_code"] == 0, got)
        check(got["cwd"].endswith(f"/d{turn}") and got["session_state"] == "kept", got)
    other = await agent("run_in_session", session="other", command="echo ${n-unset}; pwd")
    check(other["stdout"]["data"] == "unset\n/workspace\n", other)
    # A clean shell each time.
    alone = await agent("run_command", command="echo ${n-unset}; exit 3")
    check((alone["stdout"]["data"], alone["exit_code"]) == ("unset\n", 3), alone)


async def streams(agent):
    """A long process, read as it goes, with progress."""
    told, heard = [], anyio.Event()

    async def progress(done, total, message):
        told.append((done, message))
        heard.set()

    async def lets_go_on():
        await heard.wait()
        await agent("write_file", path="/tmp/go", content="")

    # It cannot end before somebody reads, however long that takes.
    command = ("for i in 1 2; do echo line $i; sleep 0.4; done; until [ -e /tmp/go ]; do sleep 0.05; done; "
               "for i in 3 4 5; do echo line $i; sleep 0.4; done; echo oops >&2; exit 7")
    started = await agent("start_process", command=command, id="long")
    check(started == {"process_id": "long", "running": True}, started)
    first = await agent("read_output", process_id="long", wait_ms=120_000, until_text="line 2")
    check(first["waited_for"] == "text" and first["running"], first)
    async with anyio.create_task_group() as group:
        group.start_soon(lets_go_on)
        rest = await agent("read_output", progress, process_id="long", wait_ms=120_000,
                           stdout_offset=first["stdout"]["next_offset"])
        check(told, rest)
    check((rest["waited_for"], rest["exit_code"]) == ("exit", 7), rest)
    whole = first["stdout"]["data"] + rest["stdout"]["data"]
    check(whole == "".join(f"line {i}\n" for i in range(1, 6)), whole)
    check(rest["stderr"]["data"] == "oops\n", rest)
    check([done for done, _ in told] == sorted({done for done, _ in told}), told)
    check(any(message.startswith("line") for _, message in told), told)


async def truncates(agent):
    """A long output is cut, says so, and can be had whole."""
    result = await agent.result("run_command", command="seq 1 100000", max_output_bytes=1000)
    got = result.structured_content
    out = got["stdout"]
    expected = "".join(f"{n}\n" for n in range(1, 100001))
    check(out["next_offset"] == len(expected) and len(out["data"]) == 500, out)
    gap = out["omitted"]
    check(gap == {"offset": 500, "bytes": len(expected) - 1000}, gap)
    check(out["data"] + expected[500:-500] + out["tail"] == expected, "head and tail")
    note = f"[{gap['bytes']} bytes left out here: read_output process_id={got['process_id']} stdout_offset=500]"
    check(note in result.content[0].text, result.content[0].text)
    # As the note says.
    data, offset = out["data"], gap["offset"]
    while True:
        part = await agent("read_output", process_id=got["process_id"], stdout_offset=offset,
                           max_output_bytes=200000)
        data += part["stdout"]["data"]
        offset = part["stdout"]["next_offset"]
        if "omitted" not in part["stdout"]:
            break
    check(data == expected, len(data), len(expected))
    # The same in a session; and characters are not cut in two.
    got = await agent("run_in_session", command="for i in {1..1000}; do printf 'ä€'; done",
                      max_output_bytes=99)
    out = got["stdout"]
    check(out["encoding"] == "utf8" and set(out["data"] + out["tail"]) == {"ä", "€"}, out)
    check(len((out["data"] + out["tail"]).encode()) + out["omitted"]["bytes"] == 5000, out)
    rest = await agent("read_output", session=got["session"], command_id=got["command_id"],
                       stdout_offset=out["omitted"]["offset"])
    check(out["data"] + rest["stdout"]["data"] == "ä€" * 1000, rest)
    # What is no text says so.
    got = await agent("run_command", command=r"printf 'a\377b'")
    check((got["stdout"]["encoding"], got["stdout"]["data"]) == ("base64", "Yf9i"), got)


async def handles_files(agent):
    await agent("write_file", path="notes/a.txt", content="one\n")
    await agent("write_file", path="notes/a.txt", content="two\n", append=True)
    got = await agent("read_file", path="notes/a.txt")
    check((got["content"], got["size"]) == ("one\ntwo\n", 8), got)
    check("next_offset" not in got and got["path"] == "/workspace/notes/a.txt", got)
    part = await agent("read_file", path="notes/a.txt", offset=2, max_bytes=3)
    check((part["content"], part["next_offset"]) == ("e\nt", 5), part)
    await agent("write_file", path="bytes", content="/wA=", encoding="base64", executable=True)
    got = await agent("read_file", path="bytes")
    check((got["content"], got["encoding"]) == ("/wA=", "base64"), got)
    await agent("write_file", path="empty", content="")
    check((await agent("read_file", path="empty"))["content"] == "", "empty")
    listing = await agent("list_files", path="notes")
    check([entry["path"] for entry in listing["entries"]] == ["/workspace/notes/a.txt"], listing)
    every, cursor = [], None
    while True:
        page = await agent("list_files", recursive=True, limit=2, **({"cursor": cursor} if cursor else {}))
        every += [entry["path"] for entry in page["entries"]]
        check(len(page["entries"]) <= 2, page)
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    check({"/workspace/bytes", "/workspace/notes/a.txt"} <= set(every), every)


async def runs_code(agent):
    await agent("run_code", language="python", code="x = 41")
    got = await agent("run_code", language="python", code="print('hi'); x + 1")
    check((got["results"], got["stdout"], got["status"]) == (["42"], "hi\n", "ok"), got)
    got = await agent("run_code", language="python", code="1 / 0")
    check(got["status"] == "error" and got["error"]["name"] == "ZeroDivisionError", got)
    got = await agent("run_code", language="python", code="import time\nwhile 1: time.sleep(0.01)",
                      timeout_ms=300)
    check(got["status"] == "timed_out" and got["state_kept"], got)
    await agent.refused("run_code", "invalid_arguments", language="bash", context="python", code="true")


async def does_not_block(agent):
    """Long work comes back with an id; it goes on, and can be ended."""
    got = await agent("run_command", command="echo begun; sleep 3000", wait_ms=300)
    check(got["running"] and "exit_code" not in got, got)
    begun = await agent("read_output", process_id=got["process_id"], wait_ms=120_000, until_text="begun")
    check(begun["running"], begun)
    killed = await agent("kill_process", process_id=got["process_id"], grace_ms=1000)
    check(killed["killed"] >= 1 and killed["survivors"] == [], killed)
    ended = await agent("read_output", process_id=got["process_id"])
    check(ended["stdout"]["data"] == "begun\n" and not ended["running"], ended)
    got = await agent("run_in_session", command="kept=1; echo > /tmp/kept; sleep 3000",
                      wait_ms=300)
    check(got["running"] and got["command_id"], got)
    await comes(agent, "/tmp/kept")
    stopped = await agent("interrupt_session")
    check(stopped["command_id"] == got["command_id"], stopped)
    got = await agent("run_in_session", command="echo $kept")
    check(got["stdout"]["data"] == "1\n", got)
    got = await agent("run_command", command="sleep 3000", timeout_ms=200)
    check(got["timed_out"] and not got["running"], got)
    # Something that reads its input.
    await agent("start_process", command="cat", id="cat", stdin_open=True)
    await agent("send_input", process_id="cat", text="hello\n")
    await agent("send_input", process_id="cat", close=True)
    got = await agent("read_output", process_id="cat", wait_ms=120_000)
    check((got["stdout"]["data"], got["exit_code"]) == ("hello\n", 0), got)


async def opens_ports(agent):
    """A server in the background, waited for, and reached from outside where the hub has an address."""
    await agent("start_process", id="web", command="echo hello > index.html; python3 -m http.server 8123")
    got = await agent("read_output", process_id="web", wait_ms=120_000, until_port=8123)
    check(got["waited_for"] == "port" and got["running"], got)
    if sys.argv[1] == "http":
        got = await agent("expose_port", port=8123)
        async with httpx2.AsyncClient(follow_redirects=True) as visitor:
            page = await visitor.get(got["url"])
            check((page.status_code, page.text) == (200, "hello\n"), page)
    else:
        await agent.refused("expose_port", "no_address", port=8123)
    await agent("kill_process", process_id="web")


async def comes(agent, file):
    """Waits until a file is there."""
    command = f"until [ -e {file} ]; do sleep 0.05; done"
    got = await agent("run_command", command=command, wait_ms=120_000)
    check(got["exit_code"] == 0, file, got)


async def cancels(agent):
    """A call that is taken back ends what it started."""
    calls = {
        "run_command": "trap 'echo > /tmp/ended; exit' TERM; echo > /tmp/up-1; sleep 3000 & wait",
        "run_in_session": "echo > /tmp/up-2; sleep 3000",
    }
    for number, (tool, command) in enumerate(calls.items(), 1):
        async with anyio.create_task_group() as group:
            async def call(tool=tool, command=command):
                await agent.result(tool, command=command, wait_ms=120_000)

            group.start_soon(call)
            await comes(agent, f"/tmp/up-{number}")
            group.cancel_scope.cancel()
    await comes(agent, "/tmp/ended")
    free = await agent("run_in_session", command="echo free")
    check(free["stdout"]["data"] == "free\n", free)


async def refuses(agent):
    """Wrong calls get an answer that says what is wrong."""
    error = await agent.refused("run_command", "invalid_arguments")
    check("command" in error["detail"] and error["hint"], error)
    error = await agent.refused("run_command", "invalid_arguments", command="true", comand="x")
    check("comand" in error["detail"], error)
    error = await agent.refused("run_command", "invalid_arguments", command=["true"])
    check("command: " in error["detail"], error)
    await agent.refused("run_command", "invalid_arguments", command="true", wait_ms=10**9)
    await agent.refused("run_command", "invalid_arguments", command="true", max_output_bytes=0)
    await agent.refused("run_command", "invalid_arguments", command="true", sandbox="No Such")
    await agent.refused("run_command", "invalid_cwd", command="true", cwd="/none")
    error = await agent.refused("run_command", "sandbox_not_found", command="true", sandbox="none")
    check("list_sandboxes" in error["hint"], error)
    await agent.refused("read_output", "invalid_arguments")
    await agent.refused("read_output", "invalid_arguments", process_id="a", session="b", command_id="c")
    await agent.refused("read_output", "invalid_arguments", process_id="long", until_port=80)
    await agent.refused("read_output", "process_not_found", process_id="none")
    await agent.refused("kill_process", "process_not_found", process_id="none")
    await agent.refused("send_input", "stdin_closed", process_id="long", text="x")
    await agent.refused("read_file", "file_not_found", path="none")
    await agent.refused("read_file", "is_a_directory", path="notes")
    await agent.refused("write_file", "invalid_arguments", path="x", content="%", encoding="base64")
    await agent.refused("list_files", "not_a_directory", path="bytes")
    await agent.refused("expose_port", "invalid_arguments", port=70000)
    try:
        await agent("no_such_tool")
        check(False, "an unknown tool was called")
    except MCPError as error:
        check("no_such_tool" in str(error), error)


async def everything(client):
    listed = (await client.list_tools()).tools
    check(len(listed) == 15, [tool.name for tool in listed])
    check(all(tool.annotations and tool.output_schema and tool.description for tool in listed), listed)
    check("create_sandbox" in client.instructions, client.instructions)
    agent = Agent(client, "agent-1")
    made = await client.call_tool("create_sandbox", {"id": "agent-1", "env": {"A": "b"}})
    check(not made.is_error and made.structured_content["state"] == "ready", made)
    again = await client.call_tool("create_sandbox", {"id": "agent-1", "env": {"A": "b"}})
    check(again.structured_content["id"] == "agent-1", again)
    got = await agent("run_command", command="echo $A; cat", stdin="in")
    check(got["stdout"]["data"] == "b\nin", got)
    for part in (keeps_state, streams, truncates, handles_files, runs_code, does_not_block, opens_ports,
                 cancels, refuses):
        if part is cancels and not can_cancel(client):
            print("not cancelled: this version has no way to over HTTP without sessions")
            continue
        await part(agent)
        print(f"ok: {part.__name__}")
    removed = await agent("remove_sandbox")
    check(removed["state"] == "gone", removed)
    await agent.refused("run_command", "sandbox_gone", command="true")


def can_cancel(client):
    return sys.argv[1] == "stdio" or client.protocol_version >= "2026-07-28"


async def scoped(client, own, other):
    """The token of one sandbox reaches that one only."""
    listed = await client.call_tool("list_sandboxes", {})
    ids = [sandbox["id"] for sandbox in listed.structured_content["sandboxes"]]
    check(ids == [own], ids)
    agent = Agent(client, own)
    got = await agent("run_command", command="echo mine")
    check(got["stdout"]["data"] == "mine\n", got)
    await agent.refused("remove_sandbox", "forbidden")
    await agent.refused("run_command", "sandbox_not_found", sandbox=other, command="true")
    await agent.refused("read_file", "sandbox_not_found", sandbox=other, path="/etc/hostname")
    await agent.refused("remove_sandbox", "sandbox_not_found", sandbox=other)
    made = await client.call_tool("create_sandbox", {})
    check(made.is_error and made.structured_content["error"]["code"] == "forbidden", made)
    print("ok: scoped")


async def main():
    kind, target, mode, what, *more = sys.argv[1:]
    token = os.environ.get("SANDSHELL_TOKEN")
    if kind == "stdio":
        names = ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "SANDSHELL_URL", "SANDSHELL_TOKEN")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        server = StdioServerParameters(command=target, args=["mcp"], env=environment)
    else:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=300)
        server = streamable_http_client(target, http_client=http)
    with anyio.fail_after(500):
        async with Client(server, mode=mode) as client:
            print(f"speaks {client.protocol_version}")
            if what == "everything":
                await everything(client)
            else:
                await scoped(client, *more)


anyio.run(main)

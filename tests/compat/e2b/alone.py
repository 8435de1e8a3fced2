"""Debug mode: the client speaks to an agent itself, without a hub, a key or a token."""

import os

from e2b import (
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    PtySize,
    Sandbox,
)
from e2b_code_interpreter import Sandbox as CodeSandbox

from checks import PATIENCE, fails, leave, patient

place = os.environ["PLACE"]
# Commands are those of login shells, here without a sandbox around them: not to run what the user has in its own.
home = {"HOME": os.environ["HOME_OF_COMMANDS"]}

if os.environ.get("LOCKED"):
    sandbox = patient(Sandbox.create(request_timeout=PATIENCE))
    fails(AuthenticationException, sandbox.commands.run, "true")
    fails(AuthenticationException, sandbox.files.read, "/etc/hostname")
    print("ok locked")
    leave(0)

sandbox = patient(Sandbox.create(request_timeout=PATIENCE))
assert sandbox.sandbox_id == "debug_sandbox_id" and sandbox.is_running()
ran = sandbox.commands.run("pwd; echo $A; echo err >&2", cwd=place, envs={"A": "b", **home})
assert (ran.stdout, ran.stderr) == (f"{place}\nb\n", "err\n")
assert fails(CommandExitException, sandbox.commands.run, "exit 4", envs=home).exit_code == 4
handle = sandbox.commands.run("cat", background=True, stdin=True, envs=home)
handle.send_stdin("in\n")
handle.close_stdin()
assert handle.wait().stdout == "in\n"
watch = sandbox.files.watch_dir(place)
assert sandbox.files.write(f"{place}/a", "text").path == f"{place}/a"
assert sandbox.files.read(f"{place}/a") == "text"
assert (FilesystemEventType.CREATE, "a") in [(one.type, one.name) for one in watch.get_new_events()]
watch.stop()
assert [one.name for one in sandbox.files.list(place)] == ["a"]
fails(FileNotFoundException, sandbox.files.read, f"{place}/none")
seen = []
handle = sandbox.pty.create(PtySize(rows=24, cols=80), envs=home)
sandbox.pty.send_stdin(handle.pid, b"echo $((6*7)); exit 5\n")
assert fails(CommandExitException, handle.wait, on_pty=seen.append).exit_code == 5
assert b"42\r\n" in b"".join(seen)
code = CodeSandbox.create(request_timeout=PATIENCE)
assert code.run_code("x = 6\nx * 7").text == "42"
assert code.run_code("x").text == "6"
print("ok alone")
leave(0)

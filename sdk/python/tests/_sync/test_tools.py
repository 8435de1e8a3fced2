# Written by scripts/generate from _async/test_tools.py: change that one.
"""Tools for language models."""

from __future__ import annotations

import re
from typing import Any

import pytest

from live import TOO_SHORT
from sandshell import Sandbox
from sandshell.tools import AnthropicTools, OpenAITools, PatchError

pytestmark = pytest.mark.anyio


class Model:
    """What an object of a maker's SDK is like, as far as we look."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


def test_bash(sandbox: Sandbox) -> None:
    with AnthropicTools(sandbox) as tools:
        assert [tool["type"] for tool in tools.definitions] == ["bash_20250124", "text_editor_20250728"]

        def bash(**given: Any) -> dict[str, Any]:
            return tools.handle({"type": "tool_use", "id": "t1", "name": "bash", "input": given})

        assert bash(command="cd /tmp; x=5; echo hi") == {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": "hi\n",
            "is_error": False,
        }
        assert (bash(command="echo $x; pwd; echo oops >&2; (exit 3)"))["content"] == (
            "5\n/tmp\noops\n[exit code 3]"
        )
        assert (bash(command="true"))["content"] == "[no output]"
        assert (bash(command="echo $x"))["content"] == "5\n"
        assert (bash(restart=True))["content"] == "The shell was restarted."
        assert (bash(command="echo [$x]"))["content"] == "[]\n"
        assert (bash())["is_error"] and (bash(comand="x"))["is_error"]
        as_model = Model(type="tool_use", id="t2", name="bash", input={"command": "echo m"})
        assert (tools.handle(as_model))["content"] == "m\n"
        unknown = tools.handle({"id": "t3", "name": "nothing", "input": {}})
        assert unknown["is_error"] and "nothing" in unknown["content"]
    assert [each for each in sandbox.list_sessions()] == []


def test_a_command_that_takes_too_long(sandbox: Sandbox) -> None:
    session = sandbox.create_session()
    session.exec("x=5")
    for timeout in TOO_SHORT:
        with AnthropicTools(sandbox, session=session, timeout=timeout) as tools:
            call = {"id": "t", "name": "bash", "input": {"command": "echo begun; sleep 1000"}}
            slow = tools.handle(call)
        told = re.fullmatch(
            r"(begun\n)?\[timed out after ([\d.]+) s; the shell is still there\]", slow["content"]
        )
        assert told and float(told[2]) >= timeout and not slow["is_error"]
        if begun := told[1]:
            break
    assert begun == "begun\n"
    with AnthropicTools(sandbox, session=session) as tools:
        assert tools.bash("echo $x") == "5\n"


def test_long_output_is_cut_in_the_middle(sandbox: Sandbox) -> None:
    with AnthropicTools(sandbox, max_output=1000) as tools:
        text = tools.bash("seq 1 1000000")
        assert text.startswith("1\n2\n") and text.endswith("999999\n1000000\n") and len(text) < 1100
        head, _, rest = text.partition("[… ")
        count, _, tail = rest.partition(" bytes left out here …]\n")
        assert len(head) + int(count) + len(tail) == 6888896


def test_a_session_of_ones_own(sandbox: Sandbox) -> None:
    session = sandbox.create_session("mine", cwd="/tmp")
    with AnthropicTools(sandbox, session=session) as tools:
        assert tools.bash("pwd") == "/tmp\n"
        tools.edit("create", "relative.txt", file_text="x")
        assert sandbox.files.read_text("/tmp/relative.txt") == "x"
    assert (session.exec("echo still here")).ok
    session.delete()
    with AnthropicTools(sandbox, session=session) as tools:
        assert tools.bash("echo anew") == "anew\n"


def test_editor(sandbox: Sandbox) -> None:
    with AnthropicTools(sandbox) as tools:

        def edit(**given: Any) -> tuple[str, bool]:
            block = {"id": "e", "name": "str_replace_based_edit_tool", "input": given}
            reply = tools.handle(block)
            return reply["content"], reply["is_error"]

        path = "/workspace/src/a.py"
        made = edit(command="create", path=path, file_text="def f():\n    return 1\n")
        assert made == (f"The file {path} has been created.", False)
        assert (edit(command="create", path=path, file_text="def f():\n    return 1\n"))[0].endswith(
            "replaced."
        )
        assert edit(command="view", path=path) == ("     1\tdef f():\n     2\t    return 1\n", False)
        assert edit(command="view", path=path, view_range=[2, -1]) == ("     2\t    return 1\n", False)
        text, failed = edit(command="str_replace", path=path, old_str="return 1", new_str="return 2")
        assert not failed and "     2\t    return 2\n" in text
        text, failed = edit(command="insert", path=path, insert_line=0, insert_text="import os\n")
        assert not failed
        assert sandbox.files.read_text(path) == "import os\ndef f():\n    return 2\n"
        assert edit(command="str_replace", path=path, old_str="import os\n") != ("", True)
        assert sandbox.files.read_text(path) == "def f():\n    return 2\n"
        sandbox.exec("mkdir -p deep/er/est .git node_modules/x; touch deep/er/est/f .git/h")
        listing, failed = edit(command="view", path="/workspace")
        assert not failed and "/workspace/deep/er/\n" in listing and "/workspace/src/a.py\n" in listing
        assert "est" not in listing and ".git" not in listing and "node_modules" not in listing
        for wrong in (
            {"command": "view", "path": "/nothing"},
            {"command": "view", "path": "/workspace", "view_range": [1, 2]},
            {"command": "str_replace", "path": path, "old_str": "absent", "new_str": ""},
            {"command": "str_replace", "path": path},
            {"command": "insert", "path": path, "insert_line": 99, "insert_text": "x"},
            {"command": "create", "path": path},
            {"command": "undo_edit", "path": path},
            {"command": "view"},
        ):
            text, failed = edit(**wrong)
            assert failed and text.startswith("Error: ")
        sandbox.files.write("bin", b"\xff\x00")
        assert (edit(command="view", path="/workspace/bin"))[1]


def test_openai_shell(sandbox: Sandbox) -> None:
    with OpenAITools(sandbox) as tools:
        assert [tool["type"] for tool in tools.definitions] == ["shell", "apply_patch"]
        action = {"commands": ["cd /tmp; echo out; echo err >&2", "pwd; exit 4"], "max_output_length": 1000}
        call = {"type": "shell_call", "call_id": "c1", "action": action}
        assert tools.handle(call) == {
            "type": "shell_call_output",
            "call_id": "c1",
            "max_output_length": 1000,
            "output": [
                {"stdout": "out\n", "stderr": "err\n", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "/tmp\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 4}},
            ],
        }
        for timeout in TOO_SHORT:
            slow = {"commands": ["echo a; sleep 1000"], "timeout_ms": int(timeout * 1000)}
            reply = tools.handle(Model(type="shell_call", call_id="c2", action=slow))
            (output,) = reply["output"]
            assert (output["stderr"], output["outcome"]) == ("", {"type": "timeout"})
            if output["stdout"]:
                break
        assert output["stdout"] == "a\n"
        with pytest.raises(ValueError):
            tools.handle({"type": "computer_call"})


def test_openai_apply_patch(sandbox: Sandbox) -> None:
    with OpenAITools(sandbox) as tools:

        def operate(kind: str, path: str, diff: str | None = None) -> tuple[str, str]:
            operation = {"type": kind, "path": path, "diff": diff}
            call = {"type": "apply_patch_call", "call_id": "p", "operation": operation}
            reply = tools.handle(call)
            assert reply["type"] == "apply_patch_call_output" and reply["call_id"] == "p"
            return reply["status"], reply["output"]

        assert operate("create_file", "a.txt", "+one\n+two\n") == ("completed", "A a.txt")
        assert (operate("create_file", "a.txt", "+x"))[0] == "failed"
        assert operate("update_file", "a.txt", "@@\n one\n-two\n+2\n") == ("completed", "M a.txt")
        assert sandbox.files.read_text("a.txt") == "one\n2\n"
        assert (operate("update_file", "a.txt", "-three\n"))[0] == "failed"
        assert (operate("update_file", "none.txt", "-x\n"))[1] == "Error: none.txt does not exist"
        assert operate("delete_file", "a.txt") == ("completed", "D a.txt")
        assert not sandbox.files.exists("a.txt")
        assert (operate("rename_file", "a.txt"))[0] == "failed"


def test_a_patch_is_applied_whole_or_not(sandbox: Sandbox) -> None:
    with OpenAITools(sandbox) as tools:
        sandbox.files.write("a", "1\n")
        sandbox.files.write("b", "1\n")
        begin, end = "*** Begin Patch\n", "*** End Patch\n"
        with pytest.raises(PatchError, match="b: these lines"):
            tools.apply_patch(f"{begin}*** Update File: a\n-1\n+2\n*** Update File: b\n-9\n+2\n{end}")
        assert sandbox.files.read_text("a") == "1\n"
        patch = f"{begin}*** Update File: a\n*** Move to: c/d\n-1\n+2\n*** Delete File: b\n*** Add File: e\n+e\n{end}"
        assert tools.apply_patch(patch) == "M c/d\nD b\nA e"
        names = [entry.path for entry in sandbox.files.list(".", recursive=True)]
        assert names == ["/workspace/c", "/workspace/c/d", "/workspace/e"]
        assert sandbox.files.read_text("c/d") == "2\n"

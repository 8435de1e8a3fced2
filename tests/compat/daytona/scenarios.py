"""What a client does with one sandbox. Each scenario stands by itself; `big` is the size of large files."""

import asyncio
import hashlib
import os
import queue
import random
import time

from daytona import (
    CodeRunParams,
    DaytonaError,
    FileDownloadRequest,
    FileUpload,
    SessionExecuteRequest,
)
from daytona.common import errors
from daytona.common.pty import PtySize


def raises(kind, call, *args, **kwargs):
    """The error of a call, which must be of exactly this type."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        assert type(error) is kind, f"{type(error).__name__} is not {kind.__name__}: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def alive(box, mark):
    """How many processes of the sandbox have this in their command line."""
    spelled = f"{mark[:-1]}[{mark[-1]}]"
    found = box.process.exec(f"grep -laz -- '{spelled}' /proc/[0-9]*/cmdline 2>/dev/null | wc -l")
    return int(found.result)


def mark():
    """A number of seconds that no other sleep has."""
    return str(random.randrange(10**8, 10**9))


# The longest that a terminal is waited for.
PATIENCE = 150


def is_late(error):
    """Whether the client gave a terminal up that is there all the same. It does so after 10 s; and by mistake when the
    first word takes longer than 0.1 s, as on a busy machine: what its queue raises then is not what it looks for."""
    return type(error) is errors.DaytonaTimeoutError or isinstance(error.__cause__, queue.Empty)


def opened(connect, again):
    """A terminal, which is joined where the client gave it up."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return connect()
        except DaytonaError as error:
            if not is_late(error) or time.monotonic() > end:
                raise
            connect = again


def commands(box, big):
    run = box.process.exec
    done = run("echo out; echo err >&2; echo out again")
    assert (done.exit_code, done.result) == (0, "out\nerr\nout again\n"), done
    assert done.artifacts.stdout == done.result
    assert run("exit 7").exit_code == 7
    assert run("kill -9 $$").exit_code == 137
    assert run("printf 'a\\0b'").result == "a\0b"
    assert run("printf 'no newline'").result == "no newline"
    assert run("echo $GREETING", env={"GREETING": "hallo, wörld"}).result == "hallo, wörld\n"
    assert run("pwd", cwd="/tmp").result == "/tmp\n"
    assert run("mkdir -p sub/dir && cd sub && pwd").exit_code == 0
    assert run("pwd", cwd="sub/dir").result.endswith("/sub/dir\n")
    assert "syntax error" in run("if then").result
    many = run("seq 1 200000").result
    assert many.splitlines() == [str(n) for n in range(1, 200001)]
    # What is left in the background does not hold the answer up.
    secret = mark()
    # Born as a copy of the shell, it has its own name only when its program is loaded.
    loaded = "until grep -qzx sleep /proc/$!/cmdline; do :; done"
    assert run(f"sleep {secret} & {loaded}; echo started").result == "started\n"
    assert alive(box, secret) == 1
    run(f"kill $(grep -laz -- '{secret[:-1]}[{secret[-1]}]' /proc/[0-9]*/cmdline | cut -d/ -f3)")
    # A timeout ends all that was started.
    raises(
        errors.DaytonaProcessExecutionTimeoutError,
        run,
        f"sleep {secret} & sleep {secret}; echo never",
        timeout=1,
    )
    assert alive(box, secret) == 0
    raises(errors.DaytonaBadRequestError, run, "true", timeout=-1)
    raises(errors.DaytonaBadRequestError, run, "  ")
    raises(errors.DaytonaBadRequestError, run, "true", cwd="/no/such/place")


def code(box, big):
    run = box.process.code_run
    done = run("import sys, os\nprint(sys.argv[1:], os.environ['K'])", CodeRunParams(argv=["a b"], env={"K": "v"}))
    assert (done.exit_code, done.result) == (0, "['a b'] v\n"), done
    assert done.artifacts.charts == []
    done = run("import sys\nprint('x')\nsys.exit(4)")
    assert (done.exit_code, done.result) == (4, "x\n")
    done = run("raise ValueError('no')")
    assert done.exit_code == 1 and "ValueError: no" in done.result
    long = "x = '" + "y" * 300_000 + "'\nprint(len(x))"
    assert run(long).result == "300000\n"


def sessions(box, big):
    process = box.process
    process.create_session("work")

    def run(command, apart=False):
        request = SessionExecuteRequest(command=command, run_async=apart)
        return process.execute_session_command("work", request)

    def logs(command):
        """Both streams, as they come."""
        out, err = [], []
        asyncio.run(process.get_session_command_logs_async("work", command, out.append, err.append))
        return "".join(out), "".join(err)

    done = run("cd /tmp && export KEPT=yes && greet() { echo hi $1; } && echo one && echo two >&2")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "one\n", "two\n"), done
    assert sorted(done.output.splitlines()) == ["one", "two"]
    done = run("greet $KEPT; pwd; false")
    assert (done.exit_code, done.output) == (1, "hi yes\n/tmp\n"), done
    # An exit does not lose the session.
    assert run("exit 3").exit_code == 3
    assert run("greet $KEPT").stdout == "hi yes\n"
    # One command after the other, asynchronous ones too, and their state stays.
    first = run("read line; export READ=$line; echo got $line", apart=True)
    assert first.exit_code is None
    assert process.get_session_command("work", first.cmd_id).exit_code is None
    process.send_session_command_input("work", first.cmd_id, "typed ä\n")
    assert logs(first.cmd_id) == ("got typed ä\n", "")
    assert process.get_session_command("work", first.cmd_id).exit_code == 0
    assert run("echo $READ").stdout == "typed ä\n"
    raises(
        errors.DaytonaCommandAlreadyCompletedError,
        process.send_session_command_input,
        "work",
        first.cmd_id,
        "late",
    )
    # Output comes while the command runs: it waits for an answer to it.
    talk = run("echo question; echo aside >&2; read answer; echo $answer; exit 9", apart=True)
    heard = []

    def hear(text):
        heard.append(text)
        if "question\n" == "".join(heard):
            process.send_session_command_input("work", talk.cmd_id, "answer\n")

    asyncio.run(process.get_session_command_logs_async("work", talk.cmd_id, hear, lambda _: None))
    assert "".join(heard) == "question\nanswer\n"
    kept = process.get_session_command_logs("work", talk.cmd_id)
    assert (kept.stdout, kept.stderr) == ("question\nanswer\n", "aside\n"), kept
    assert process.get_session_command("work", talk.cmd_id).exit_code == 9
    # The bytes that mark streams come through in either stream.
    odd = "a\x01\x01\x01\x01b\x02\x02\x02c\x02"
    text = "a\\001\\001\\001\\001b\\002\\002\\002c\\002"
    odd_run = run(f"printf '{text}'; printf '{text}' >&2; printf '\\001'; sleep 0.1; printf '\\002\\n'", apart=True)
    assert logs(odd_run.cmd_id) == (odd + "\x01\x02\n", odd)
    much = run("seq 1 100000; echo end >&2", apart=True)
    out, err = logs(much.cmd_id)
    assert out.splitlines() == [str(n) for n in range(1, 100001)] and err == "end\n"
    # What is listed is what was asked.
    known = process.get_session("work")
    assert known.session_id == "work"
    assert known.commands[-1].command.startswith("seq 1 100000")
    assert [one.session_id for one in process.list_sessions()] == ["work"]
    # A session takes all it started with it.
    secret = mark()
    # The shell stays: a program that is being replaced has no command line for a moment.
    sleep = f"sh -c 'echo up; sleep {secret}; :'"
    trees = run(f"{sleep} & setsid {sleep} & {sleep}", apart=True)
    ups = []

    def up(text):
        ups.append(text)
        if "".join(ups) == "up\n" * 3:
            assert alive(box, secret) >= 3
            process.delete_session("work")

    asyncio.run(process.get_session_command_logs_async("work", trees.cmd_id, up, up))
    assert alive(box, secret) == 0
    raises(errors.DaytonaNotFoundError, process.get_session, "work")
    raises(errors.DaytonaNotFoundError, process.delete_session, "work")
    raises(errors.DaytonaNotFoundError, process.get_entrypoint_session)
    process.create_session("again")
    raises(errors.DaytonaConflictError, process.create_session, "again")
    raises(errors.DaytonaBadRequestError, process.create_session, "not/a/name")
    raises(errors.DaytonaNotFoundError, process.get_session_command, "again", "none")
    raises(errors.DaytonaNotFoundError, process.get_session_command_logs, "again", "none")
    raises(
        errors.DaytonaNotFoundError,
        process.execute_session_command,
        "none",
        SessionExecuteRequest(command="true"),
    )
    process.delete_session("again")


def terminals(box, big):
    process = box.process
    seen = bytearray()
    size = PtySize(rows=33, cols=111)

    def join():
        return process.connect_pty_session("main")

    def create():
        return process.create_pty_session("main", cwd="/tmp", envs={"GIVEN": "wörd"}, pty_size=size)

    handle = opened(create, join)
    assert handle.is_connected()

    def until(words):
        for data in handle:
            seen.extend(data)
            if words in seen:
                return

    handle.send_input("echo $GIVEN-$PWD; stty size\n")
    # Before it says the last of this, bash reads the size and sets it again: a change in between would be lost.
    until("wörd-/tmp\r\n33 111\r\n\x1b[?2004h".encode())
    info = handle.resize(PtySize(rows=20, cols=90))
    assert (info.rows, info.cols, info.active) == (20, 90, True)
    handle.send_input("stty size\n")
    until(b"20 90\r\n")
    raises(errors.DaytonaConflictError, process.create_pty_session, "main")
    known = process.get_pty_session_info("main")
    assert (known.id, known.rows, known.cols) == ("main", 20, 90)
    assert [one.id for one in process.list_pty_sessions()] == ["main"]
    # A second one sees the same screen.
    second = opened(join, join)
    drawn = bytearray()
    for data in second:
        drawn.extend(data)
        if b"33 111" in drawn:
            break
    second.disconnect()
    # ^C reaches the program and not the shell.
    secret = mark()
    handle.send_input(f"sh -c 'echo u''p; exec sleep {secret}'\n")
    until(b"up\r\n")
    handle.send_input(b"\x03")
    handle.send_input("echo still here $?\n")
    until(b"still here 130\r\n")
    handle.send_input("exit 5\n")
    result = handle.wait(timeout=150)
    assert (result.exit_code, result.error) == (5, None), result
    assert not handle.is_connected()
    handle.disconnect()
    # Killed with what runs in it; the name is free again.
    handle = opened(lambda: process.create_pty_session("main"), join)
    seen.clear()
    handle.send_input(f"sh -c 'echo u''p; sleep {secret}; :'\n")
    until(b"up\r\n")
    assert alive(box, secret) >= 1
    handle.kill()
    assert handle.wait(timeout=150).exit_code == 137
    assert alive(box, secret) == 0
    handle.disconnect()
    assert process.list_pty_sessions() == []
    raises(errors.DaytonaNotFoundError, process.kill_pty_session, "main")
    raises(errors.DaytonaNotFoundError, process.resize_pty_session, "main", size)
    raises(DaytonaError, process.connect_pty_session, "main")


def interpreter(box, big):
    run = box.code_interpreter.run_code
    live = []
    done = run("import sys\nx = 20\nprint(x)\nprint('oops', file=sys.stderr)", on_stdout=lambda o: live.append(o.output))
    assert (done.stdout, done.stderr, done.error) == ("20\n", "oops\n", None), done
    assert "".join(live) == "20\n"
    assert run("print(x + 1)").stdout == "21\n"
    failed = run("1 / 0")
    assert failed.error.name == "ZeroDivisionError" and "1 / 0" in failed.error.traceback
    assert run("import os\nprint(os.environ.get('K'))", envs={"K": "v"}).stdout == "v\n"
    assert run("print(os.environ.get('K'))").stdout == "None\n"
    own = box.code_interpreter.create_context(cwd="/tmp")
    assert (own.cwd, own.language) == ("/tmp", "python")
    assert run("print('x' in dir())", context=own).stdout == "False\n"
    assert [one.id for one in box.code_interpreter.list_contexts()] == [own.id]
    raises(errors.DaytonaTimeoutError, run, "while True: pass", timeout=1)
    assert run("print(x)").stdout == "20\n", "the state is kept"
    box.code_interpreter.delete_context(own)
    assert box.code_interpreter.list_contexts() == []
    raises(errors.DaytonaConnectionError, run, "1", context=own)
    raises(errors.DaytonaNotFoundError, box.code_interpreter.delete_context, own)


def files(box, big):
    fs = box.fs
    fs.create_folder("things/deep", "750")
    info = fs.get_file_info("things/deep")
    assert info.is_dir and info.permissions == "0750" and info.mode == "drwxr-x---", info
    fs.upload_file("text ä\n".encode(), "things/a.txt")
    assert fs.download_file("things/a.txt").decode() == "text ä\n"
    odd = bytes(range(256)) * 7
    fs.upload_file(odd, "things/sp ace \"ü\".bin")
    assert fs.download_file("things/sp ace \"ü\".bin") == odd
    # An empty file is told from none.
    fs.upload_file(b"", "things/empty")
    assert fs.get_file_info("things/empty").size == 0
    assert fs.download_file("things/empty") == b""
    large = random.randbytes(1 << 20) * (big >> 20)
    fs.upload_file(large, "things/large")
    assert hashlib.sha256(fs.download_file("things/large")).digest() == hashlib.sha256(large).digest()
    pieces = fs.download_file_stream("things/large")
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    assert digest.digest() == hashlib.sha256(large).digest()
    fs.upload_file_stream(large, "things/streamed")
    assert box.process.exec("cmp things/large things/streamed").exit_code == 0
    fs.delete_file("things/large")
    fs.delete_file("things/streamed")
    fs.upload_files([FileUpload(f"{n}".encode(), f"things/many/{n}") for n in range(20)])
    got = fs.download_files([FileDownloadRequest(f"things/many/{n}") for n in range(20)])
    assert [one.result for one in got] == [f"{n}".encode() for n in range(20)]
    mixed = fs.download_files([FileDownloadRequest("things/a.txt"), FileDownloadRequest("things/none")])
    assert mixed[0].result and mixed[1].error and mixed[1].error_details.code == "FILE_NOT_FOUND"
    names = sorted(one.name for one in fs.list_files("things"))
    assert names == ["a.txt", "deep", "empty", "many", "sp ace \"ü\".bin"], names
    below = [one.path for one in fs.list_files("things", depth=2)]
    assert any(path.endswith("things/many/7") for path in below)
    entry = next(one for one in fs.list_files("things") if one.name == "a.txt")
    assert entry.size == 8 and not entry.is_dir and entry.owner and entry.group and entry.modified_at
    found = fs.search_files("things", "*.txt")
    assert [os.path.basename(path) for path in found.files] == ["a.txt"]
    fs.upload_file(b"one\nneedle (\nthree needle\n", "things/hay.txt")
    lines = fs.find_files("things", "needle")
    assert [(one.line, one.content) for one in lines] == [(2, "needle ("), (3, "three needle")], lines
    assert [one.line for one in fs.find_files("things", "needle (")] == [2]
    results = fs.replace_in_files(["things/hay.txt", "things/none"], "needle", "straw")
    assert [one.success for one in results] == [True, False] and results[1].error
    assert fs.download_file("things/hay.txt") == b"one\nstraw (\nthree straw\n"
    fs.set_file_permissions("things/hay.txt", mode="600")
    assert fs.get_file_info("things/hay.txt").permissions == "0600"
    fs.move_files("things/hay.txt", "things/moved/hay")
    assert fs.get_file_info("things/moved/hay").size == 24
    raises(errors.DaytonaFileNotFoundError, fs.get_file_info, "things/hay.txt")
    raises(errors.DaytonaFileNotFoundError, fs.download_file, "things/hay.txt")
    raises(errors.DaytonaFileNotFoundError, fs.list_files, "nowhere")
    raises(errors.DaytonaInvalidFilePathError, fs.download_file, "things")
    raises(errors.DaytonaInvalidFilePathError, fs.list_files, "things/a.txt")
    raises(errors.DaytonaFileNotFoundError, fs.move_files, "things/none", "things/other")
    raises(errors.DaytonaConflictError, fs.delete_file, "things/many")
    raises(errors.DaytonaBadRequestError, fs.create_folder, "x", "999")
    refused = raises(DaytonaError, fs.upload_file, b"x", "/proc/version")
    assert refused.status_code in (400, 403), refused
    fs.delete_file("things", recursive=True)
    raises(errors.DaytonaFileNotFoundError, fs.get_file_info, "things")


def repositories(box, big):
    git, fs, run = box.git, box.fs, box.process.exec
    raises(errors.DaytonaGitRepoNotFoundError, git.status, "/tmp")
    git.init("origin.git", bare=True, initial_branch="main")
    git.clone(f"file://{box.get_work_dir()}/origin.git", "one")
    fs.upload_file(b"a\n", "one/a")
    status = git.status("one")
    assert [(one.name, one.staging, one.worktree) for one in status.file_status] == [("a", "Untracked", "Untracked")]
    git.add("one", ["a"])
    assert git.status("one").file_status[0].staging == "Added"
    made = git.commit("one", "First words", "Ann", "ann@example.org")
    assert len(made.sha) == 40
    raises(errors.DaytonaBadRequestError, git.commit, "one", "Nothing", "Ann", "ann@example.org")
    assert git.commit("one", "Still nothing", "Ann", "ann@example.org", allow_empty=True).sha != made.sha
    git.push("one", branch="main", remote="origin", set_upstream=True)
    status = git.status("one")
    assert (status.current_branch, status.ahead, status.branch_published) == ("main", 0, True), status
    git.create_branch("one", "side")
    raises(errors.DaytonaGitBranchExistsError, git.create_branch, "one", "side")
    git.checkout_branch("one", "side")
    branches = git.branches("one")
    assert (sorted(branches.branches), branches.current) == (["main", "side"], "side")
    git.checkout_branch("one", "main")
    git.delete_branch("one", "side")
    raises(errors.DaytonaGitBranchNotFoundError, git.delete_branch, "one", "side")
    raises(errors.DaytonaGitBranchNotFoundError, git.checkout_branch, "one", "side")
    # Two that write the same: the later one is refused, and has a conflict to solve.
    git.clone("origin.git", "two", branch="main")
    for place, words in (("one", b"one\n"), ("two", b"two\n")):
        fs.upload_file(words, f"{place}/a")
        git.add(place, ["."])
        git.commit(place, "Other words", "Bob", "bob@example.org")
    git.push("one")
    raises(errors.DaytonaGitPushRejectedError, git.push, "two")
    run("git config user.name Bob; git config user.email bob@example.org", cwd="two")
    raises(errors.DaytonaGitMergeConflictError, git.pull, "two")
    git.reset("two", mode="hard", target="HEAD")
    git.reset("two", mode="hard", target="HEAD~1")
    git.pull("two")
    assert fs.download_file("two/a") == b"one\n"
    fs.upload_file(b"more\n", "two/a")
    git.restore("two", ["a"])
    assert fs.download_file("two/a") == b"one\n"
    assert git.remote_get("two", "origin").endswith("origin.git")
    git.remote_add("two", "other", "https://example.org/x.git")
    raises(errors.DaytonaConflictError, git.remote_add, "two", "other", "https://example.org/y.git")
    git.remote_add("two", "other", "https://example.org/y.git", overwrite=True)
    assert [one.name for one in git.remotes("two").remotes] == ["origin", "other"]
    git.configure_user("Cleo", "cleo@example.org", scope="local", path="two")
    assert git.get_config("user.name", scope="local", path="two") == "Cleo"
    git.set_config("sandshell.test", "1", scope="local", path="two")
    assert git.get_config("sandshell.test", scope="local", path="two") == "1"
    assert git.get_config("sandshell.none", scope="local", path="two") is None
    raises(errors.DaytonaGitRepoNotFoundError, git.clone, "nowhere.git", "three")


def surroundings(box, big):
    home, work = box.get_user_home_dir(), box.get_work_dir()
    assert home.startswith("/") and work.startswith("/")
    assert box.process.exec("pwd; echo $HOME").result == f"{work}\n{home}\n"
    box.update_env({"LATER": "set"})
    assert box.process.exec("echo $LATER").result == "set\n"
    box.update_env({}, unset=["LATER"])
    assert box.process.exec("echo $LATER").result == "\n"
    figures = box.get_metrics_latest()
    assert figures.cpu_count > 0 and figures.mem_used > 0
    lsp = box.create_lsp_server("python", work)
    assert raises(DaytonaError, lsp.start).status_code == 501
    assert raises(DaytonaError, box.computer_use.start).status_code == 501
    assert raises(DaytonaError, box.archive).status_code == 501


ALL = [commands, code, sessions, terminals, interpreter, files, repositories, surroundings]

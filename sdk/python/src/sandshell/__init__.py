"""Sandshell: a safe computer for agents, driven from Python.

    from sandshell import Sandbox

    with Sandbox.create() as sandbox:
        print(sandbox.exec("echo hello").stdout)

`AsyncSandbox` is the same for asyncio. The module `sandshell.tools` has ready tools for language models;
`sandshell.models` is what the API answers with, `sandshell.params` what its requests take, and
`sandshell.errors` what can go wrong.
"""

from . import errors, models, params, results
from ._async.backups import AsyncBackups
from ._async.contexts import AsyncContext, AsyncRun, RunItem
from ._async.files import AsyncFileReader, AsyncFiles, AsyncWatch
from ._async.git import AsyncGit
from ._async.hub import AsyncHub
from ._async.ports import AsyncPortEvents, AsyncPorts
from ._async.process import AsyncProcess
from ._async.sandbox import AsyncAgent, AsyncComputer, AsyncExecStream, AsyncSandbox, AsyncSandboxEvents
from ._async.session import AsyncSession, AsyncSessionStream
from ._async.stream import AsyncDownload, AsyncOutputStream
from ._async.terminal import AsyncTerminal
from ._sync.backups import Backups
from ._sync.contexts import Context, Run
from ._sync.files import FileReader, Files, Watch
from ._sync.git import Git
from ._sync.hub import Hub
from ._sync.ports import PortEvents, Ports
from ._sync.process import Process
from ._sync.sandbox import Agent, Computer, ExecStream, Sandbox, SandboxEvents
from ._sync.session import Session, SessionStream
from ._sync.stream import Download, OutputStream
from ._sync.terminal import Terminal
from ._version import VERSION as __version__
from .errors import (
    ApiError,
    CommandFailed,
    ConnectionFailed,
    NotFoundError,
    ProcessExited,
    SandshellError,
    WaitTimeout,
)
from .results import CodeOutput, ExecResult, Exit, Output, SessionExit, SessionResult, TerminalExit

__all__ = [
    "Agent",
    "ApiError",
    "AsyncAgent",
    "AsyncBackups",
    "AsyncComputer",
    "AsyncContext",
    "AsyncDownload",
    "AsyncExecStream",
    "AsyncFileReader",
    "AsyncFiles",
    "AsyncGit",
    "AsyncHub",
    "AsyncOutputStream",
    "AsyncPortEvents",
    "AsyncPorts",
    "AsyncProcess",
    "AsyncRun",
    "AsyncSandbox",
    "AsyncSandboxEvents",
    "AsyncSession",
    "AsyncSessionStream",
    "AsyncTerminal",
    "AsyncWatch",
    "Backups",
    "CodeOutput",
    "CommandFailed",
    "Computer",
    "ConnectionFailed",
    "Context",
    "Download",
    "ExecResult",
    "ExecStream",
    "Exit",
    "FileReader",
    "Files",
    "Git",
    "Hub",
    "NotFoundError",
    "Output",
    "OutputStream",
    "PortEvents",
    "Ports",
    "Process",
    "ProcessExited",
    "Run",
    "RunItem",
    "Sandbox",
    "SandboxEvents",
    "SandshellError",
    "Session",
    "SessionExit",
    "SessionResult",
    "SessionStream",
    "Terminal",
    "TerminalExit",
    "WaitTimeout",
    "Watch",
    "__version__",
    "errors",
    "models",
    "params",
    "results",
]

"""Patches in the V4A form, which models of OpenAI write, applied to text. No files here.

```text
*** Begin Patch
*** Update File: src/app.py
*** Move to: src/main.py           (if it gets another name)
@@ def greet():                    (a line above the change; several narrow it down)
 context
-old
+new
*** End of File                    (the lines above are the last ones)
*** Add File: new.txt
+all its lines
*** Delete File: old.txt
*** End Patch
```

There are no line numbers: a change is where its context and its old lines are found, in order, after the
one before. Lines are compared exactly first, then without blanks at their ends, then without those
around them; what is not changed keeps the file's own form. If a place is not found nothing is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, UPDATE, DELETE = "*** Add File: ", "*** Update File: ", "*** Delete File: "
MOVE, END_OF_FILE = "*** Move to: ", "*** End of File"


class PatchError(ValueError):
    """A patch is not well formed, or does not fit the file."""


@dataclass
class Hunk:
    """One change: lines that lead to it, and its own, each with its sign."""

    headers: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    at_end: bool = False


@dataclass(frozen=True)
class AddFile:
    path: str
    text: str


@dataclass(frozen=True)
class DeleteFile:
    path: str


@dataclass(frozen=True)
class UpdateFile:
    path: str
    hunks: list[Hunk]
    move_to: str | None = None


def parse_patch(patch: str) -> list[AddFile | DeleteFile | UpdateFile]:
    """The changes of a whole patch."""
    lines = patch.strip().splitlines()
    if not lines or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise PatchError(f"a patch begins with {BEGIN!r} and ends with {END!r}")
    changes: list[AddFile | DeleteFile | UpdateFile] = []
    body = lines[1:-1]
    at = 0
    while at < len(body):
        line = body[at]
        until = at + 1
        while until < len(body) and not body[until].startswith((ADD, UPDATE, DELETE)):
            until += 1
        rest = body[at + 1 : until]
        if line.startswith(ADD):
            changes.append(AddFile(line.removeprefix(ADD).strip(), created_text("\n".join(rest))))
        elif line.startswith(DELETE):
            if any(each.strip() for each in rest):
                raise PatchError(f"{line!r} has no lines of its own")
            changes.append(DeleteFile(line.removeprefix(DELETE).strip()))
        elif line.startswith(UPDATE):
            move_to = None
            if rest and rest[0].startswith(MOVE):
                move_to = rest.pop(0).removeprefix(MOVE).strip()
            hunks = parse_diff("\n".join(rest))
            if not hunks and move_to is None:
                raise PatchError(f"{line!r} changes nothing")
            changes.append(UpdateFile(line.removeprefix(UPDATE).strip(), hunks, move_to))
        elif line.strip():
            raise PatchError(f"expected '*** Add File:', 'Update File:' or 'Delete File:', not {line!r}")
        at = until
    if not changes:
        raise PatchError("the patch has no changes")
    return changes


def created_text(diff: str) -> str:
    """The text of a new file: every line has a plus."""
    lines = diff.splitlines()
    for line in lines:
        if not line.startswith("+"):
            raise PatchError(f"each line of a new file begins with '+', not {line!r}")
    return "".join(line[1:] + "\n" for line in lines)


def parse_diff(diff: str) -> list[Hunk]:
    """The changes within one file."""
    hunks: list[Hunk] = []
    for line in diff.splitlines():
        if line.startswith("@@"):
            header = line.removeprefix("@@").strip()
            # The end of `@@ -1,2 +1,2 @@ def f():`, which some write; numbers are not relied on.
            if header.endswith("@@") or " @@ " in header:
                header = header.rpartition("@@")[2].strip()
            if not hunks or hunks[-1].lines:
                hunks.append(Hunk())
            if header:
                hunks[-1].headers.append(header)
            continue
        if line.strip() == END_OF_FILE:
            if not hunks:
                raise PatchError(f"{END_OF_FILE!r} without a change before it")
            hunks[-1].at_end = True
            continue
        if not hunks or hunks[-1].at_end:
            hunks.append(Hunk())
        if not line:
            hunks[-1].lines.append((" ", ""))
        elif line[0] in " +-":
            hunks[-1].lines.append((line[0], line[1:]))
        else:
            raise PatchError(f"a line of a change begins with ' ', '+', '-' or '@@', not {line!r}")
    return [hunk for hunk in hunks if hunk.lines]


def apply_hunks(text: str, hunks: list[Hunk]) -> str:
    """The text with all changes."""
    lines = text.split("\n")
    ends_with_newline = lines[-1] == ""
    if ends_with_newline:
        lines.pop()
    carriage = "\r" if text.count("\r\n") * 2 > text.count("\n") else ""
    out: list[str] = []
    at = 0
    for hunk in hunks:
        start = _place(lines, hunk, at)
        out += lines[at:start]
        at = start
        for sign, content in hunk.lines:
            if sign == "+":
                out.append(content + carriage)
                continue
            if sign == " ":
                out.append(lines[at])
            at += 1
    out += lines[at:]
    return "\n".join(out) + ("\n" if out and (ends_with_newline or not text) else "")


def _place(lines: list[str], hunk: Hunk, at: int) -> int:
    """Where a change goes, at or after `at`."""
    for header in hunk.headers:
        found = _find(lines, [header], at)
        if found is None:
            raise PatchError(f"the line {header!r} is not in the rest of the file")
        at = found + 1
    old = [content for sign, content in hunk.lines if sign != "+"]
    if not old:
        return at if hunk.headers and not hunk.at_end else len(lines)
    if hunk.at_end and _find(lines, old, max(len(lines) - len(old), at)) is not None:
        return len(lines) - len(old)
    found = _find(lines, old, at)
    if found is None and hunk.headers:
        # The header may be repeated as the first line of the change itself.
        found = _find(lines, old, at - 1)
    if found is None:
        shown = "\n".join(old)
        raise PatchError(f"these lines are not in the rest of the file, in this order:\n{shown}")
    return found


def _find(lines: list[str], wanted: list[str], at: int) -> int | None:
    """Where the lines are, compared ever less strictly."""
    for same in (_exactly, str.rstrip, str.strip):
        there = [same(line) for line in lines]
        sought = [same(line) for line in wanted]
        for start in _starts(len(there), len(sought), at):
            if there[start : start + len(sought)] == sought:
                return start
    return None


def _exactly(line: str) -> str:
    return line


def _starts(length: int, size: int, at: int) -> Iterator[int]:
    yield from range(at, length - size + 1)

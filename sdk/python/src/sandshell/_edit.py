"""What tools for language models do to text: numbering, replacing, inserting, and cutting it short.

No files and no connection here. An `EditError` is an answer for the model: what is wrong, and what to do.
"""

from __future__ import annotations


class EditError(ValueError):
    """An edit that cannot be done."""


def clipped(text: str, limit: int, *, dropped: int = 0) -> str:
    """Head and tail of a text that is longer than `limit`, and between them how much is missing.

    `dropped` bytes in the middle are missing already.
    """
    if len(text) <= limit and not dropped:
        return text
    head, tail = text[: (limit + 1) // 2], text[len(text) - limit // 2 :]
    # Whole lines where that costs little.
    if 0 <= len(head) - head.rfind("\n") - 1 < len(head) // 4:
        head = head[: head.rfind("\n") + 1]
    cut = tail.find("\n") + 1
    if 0 < cut < len(tail) // 4:
        tail = tail[cut:]
    left_out = text[len(head) : len(text) - len(tail)]
    count = len(left_out.encode("utf-8", "replace")) + dropped
    before = "" if not head or head.endswith("\n") else "\n"
    return f"{head}{before}[… {count} bytes left out here …]\n{tail}"


def numbered(lines: list[str], first: int = 1) -> str:
    """Lines with their numbers, as `cat -n` writes them."""
    return "".join(f"{number:6}\t{line}\n" for number, line in enumerate(lines, first))


def view_of(text: str, view_range: list[int] | None) -> str:
    """A text, or the lines of it that are asked for (from 1 on; -1 is the last), with numbers."""
    lines = lines_of(text)
    if view_range is None:
        return numbered(lines)
    if len(view_range) != 2 or not all(isinstance(each, int) for each in view_range):
        raise EditError("view_range is a list of two numbers, the first and the last line.")
    first, last = view_range
    last = len(lines) if last == -1 else last
    if not 1 <= first <= max(len(lines), 1):
        raise EditError(f"view_range begins at line {first}, but the file has {len(lines)} lines.")
    if last < first:
        raise EditError(f"view_range ends at line {last}, before it begins ({first}).")
    return numbered(lines[first - 1 : last], first)


def replaced(text: str, old: str, new: str) -> tuple[str, str]:
    """The text with the one place of `old` replaced, and how it looks around there."""
    if not old:
        raise EditError("old_str is empty; use insert, or create to write the whole file.")
    count = text.count(old)
    if count == 0:
        raise EditError("No match found for old_str. It must be exactly as in the file, blanks included.")
    if count > 1:
        at = []
        start = text.find(old)
        while start >= 0:
            at.append(str(text.count("\n", 0, start) + 1))
            start = text.find(old, start + len(old))
        where = ", ".join(at)
        raise EditError(
            f"Found {count} matches for old_str, in lines {where}. Add more of what is around one."
        )
    start = text.find(old)
    after = text[:start] + new + text[start + len(old) :]
    return after, around(after, text.count("\n", 0, start) + 1, new.count("\n") + 1)


def inserted(text: str, after_line: int, new: str) -> tuple[str, str]:
    """The text with `new` after a line (0 for the beginning), and how it looks around there."""
    lines = text.splitlines(keepends=True)
    if not 0 <= after_line <= len(lines):
        raise EditError(f"insert_line is {after_line}; this file takes 0 to {len(lines)}.")
    if new and not new.endswith("\n"):
        new += "\n"
    if after_line and not lines[after_line - 1].endswith(("\n", "\r")):
        lines[after_line - 1] += "\n"
    after = "".join(lines[:after_line]) + new + "".join(lines[after_line:])
    return after, around(after, after_line + 1, new.count("\n"))


def around(text: str, line: int, count: int) -> str:
    """The lines of a change with some before and after, numbered."""
    lines = lines_of(text)
    first = max(line - 4, 1)
    return numbered(lines[first - 1 : line + count + 3], first)


def lines_of(text: str) -> list[str]:
    """Lines as editors count them: only a line feed ends one."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines

"""Patches and edits of text, without a sandbox."""

from __future__ import annotations

import pytest

from sandshell import _edit
from sandshell._patch import (
    AddFile,
    DeleteFile,
    PatchError,
    UpdateFile,
    apply_hunks,
    created_text,
    parse_diff,
    parse_patch,
)

FILE = """\
import os

class A:
    def f(self):
        return 1

class B:
    def f(self):
        return 1
"""


def patched(text: str, diff: str) -> str:
    return apply_hunks(text, parse_diff(diff))


def test_headers_narrow_the_place() -> None:
    assert patched(FILE, "@@ class B:\n@@     def f(self):\n-        return 1\n+        return 2\n") == (
        FILE[: FILE.rindex("1")] + "2\n"
    )
    first = patched(FILE, "@@ class A:\n     def f(self):\n-        return 1\n+        return 2\n")
    assert first == FILE.replace("return 1", "return 2", 1)


def test_several_changes_in_order() -> None:
    diff = (
        "@@\n-import os\n+import sys\n@@ class B:\n     def f(self):\n-        return 1\n+        return 3\n"
    )
    assert patched(FILE, diff) == FILE.replace("os", "sys")[:-2] + "3\n"


def test_without_a_header_and_with_numbers() -> None:
    assert patched("a\nb\nc\n", " a\n-b\n+B\n c\n") == "a\nB\nc\n"
    assert patched("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n") == "a\nB\nc\n"


def test_insertions() -> None:
    assert patched("a\nb\n", "+z\n") == "a\nb\nz\n"
    assert patched("a\nb\n", "@@ a\n+z\n") == "a\nz\nb\n"
    assert patched("", "+z\n") == "z\n"
    assert patched("x\ny\nx\ny\n", " x\n-y\n+Y\n*** End of File\n") == "x\ny\nx\nY\n"


def test_the_rest_keeps_its_form() -> None:
    assert patched("a  \r\nb\r\nc\r\n", " a\n-b\n+B\n") == "a  \r\nB\r\nc\r\n"
    assert patched("a\nb", "-b\n+c\n") == "a\nc"
    assert patched("\tif x:\n\t\ty\n", "-    y\n+\t\tz\n") == "\tif x:\n\t\tz\n"
    assert patched("one\n\ntwo\n", " one\n\n-two\n+2\n") == "one\n\n2\n"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        ("-nothing\n", "not in the rest of the file"),
        ("@@ class C:\n+x\n", "'class C:' is not in"),
        ("*what\n", "begins with"),
        ("-b\n+B\n@@\n-a\n+A\n", "in this order"),
    ],
)
def test_what_does_not_fit(diff: str, why: str) -> None:
    with pytest.raises(PatchError, match=why):
        patched("a\nb\n", diff)


def test_a_whole_patch() -> None:
    patch = """\
*** Begin Patch
*** Add File: new.txt
+one
+
*** Update File: a.py
*** Move to: b.py
@@
-x
+y
*** Delete File: old.txt
*** End Patch
"""
    added, updated, deleted = parse_patch(patch)
    assert added == AddFile("new.txt", "one\n\n")
    assert isinstance(updated, UpdateFile) and (updated.path, updated.move_to) == ("a.py", "b.py")
    assert apply_hunks("x\n", updated.hunks) == "y\n"
    assert deleted == DeleteFile("old.txt")


@pytest.mark.parametrize(
    "patch",
    [
        "",
        "*** Begin Patch\n*** End Patch",
        "*** Begin Patch\nwhat\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\nno plus\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n*** End Patch",
        "*** Begin Patch\n*** Delete File: a\n+x\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n-x\n",
    ],
)
def test_what_is_no_patch(patch: str) -> None:
    with pytest.raises(PatchError):
        parse_patch(patch)


def test_created_text() -> None:
    assert created_text("+a\n+b") == "a\nb\n"
    assert created_text("") == ""


def test_clipping_is_honest() -> None:
    assert _edit.clipped("short", 100) == "short"
    text = "".join(f"line {number}\n" for number in range(1000))
    cut = _edit.clipped(text, 200)
    head, _, rest = cut.partition("[… ")
    count, _, tail = rest.partition(" bytes left out here …]\n")
    assert text.startswith(head) and text.endswith(tail) and head.endswith("\n")
    assert len(head) + int(count) + len(tail) == len(text) and len(head) + len(tail) <= 200
    assert "[… 1006 bytes" in _edit.clipped("x" * 10, 4, dropped=1000)


def test_clipping_one_long_line_with_wide_characters() -> None:
    cut = _edit.clipped("é" * 1000, 100)
    assert cut.count("é") == 100 and "[… 1800 bytes left out here …]" in cut


def test_edits() -> None:
    after, snippet = _edit.replaced("a\nb\nc\n", "b", "B\nb")
    assert after == "a\nB\nb\nc\n" and "     2\tB\n     3\tb\n" in snippet
    with pytest.raises(_edit.EditError, match="Found 2 matches for old_str, in lines 1, 3"):
        _edit.replaced("x\ny\nx\n", "x", "z")
    with pytest.raises(_edit.EditError, match="No match"):
        _edit.replaced("x", "y", "z")
    assert _edit.inserted("a\nb\n", 1, "new")[0] == "a\nnew\nb\n"
    assert _edit.inserted("a", 1, "b\n")[0] == "a\nb\n"
    assert _edit.inserted("", 0, "b")[0] == "b\n"
    with pytest.raises(_edit.EditError, match="0 to 1"):
        _edit.inserted("a\n", 2, "x")
    assert _edit.view_of("a\nb\nc\n", [2, -1]) == "     2\tb\n     3\tc\n"
    for wrong in ([0, 1], [4, 5], [2, 1], [1]):
        with pytest.raises(_edit.EditError):
            _edit.view_of("a\nb\nc\n", wrong)

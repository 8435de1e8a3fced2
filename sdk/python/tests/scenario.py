"""The shared scenario files (sdk/scenarios), without the calls: placeholders, likeness, arguments.

What the format means is in its README. A call's arguments have the API's names; `arguments` makes them
those of the SDK, and `as_json` makes its results the API's again.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import keyword
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

SCENARIOS = Path(os.environ.get("SANDSHELL_SCENARIOS") or Path(__file__).resolve().parents[2] / "scenarios")

FIELDS = {"name", "about", "sandbox", "requires", "steps"}
STEP_FIELDS = {"name", "call", "args", "expect", "error", "save", "start", "eventually", "needs"}
DURATIONS = ("timeout_ms", "idle_timeout_ms", "max_lifetime_ms", "ttl_ms", "grace_ms")


def names() -> list[str]:
    """The scenarios there are."""
    return sorted(file.stem for file in SCENARIOS.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    scenario: dict[str, Any] = json.loads((SCENARIOS / f"{name}.json").read_text())
    assert not set(scenario) - FIELDS, f"unknown fields {set(scenario) - FIELDS} in {name}"
    for step in scenario["steps"]:
        unknown = set(step) - STEP_FIELDS
        assert not unknown, f"unknown fields {unknown} in step {step.get('name')!r}"
    return scenario


def filled(value: Any, kept: dict[str, Any]) -> Any:
    """`value` with its placeholders replaced."""
    if isinstance(value, str):
        whole = re.fullmatch(r"\$\{(\w+)\}", value)
        if whole:
            return kept[whole[1]]
        return re.sub(r"\$\{(\w+)\}", lambda match: str(kept[match[1]]), value)
    if isinstance(value, list):
        return [filled(item, kept) for item in value]
    if isinstance(value, dict):
        return {name: filled(item, kept) for name, item in value.items()}
    return value


def part(value: Any, path: str) -> Any:
    for key in path.split(".") if path else []:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def unlike(got: Any, wanted: Any, where: str = "result") -> str | None:
    """Why `got` is not like `wanted`; None when it is."""
    if isinstance(wanted, dict) and len(wanted) == 1 and next(iter(wanted)).startswith("$"):
        ((test, operand),) = wanted.items()
        return None if _holds(got, test, operand) else f"{where}: {got!r} fails {test} {operand!r}"
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            return f"{where}: {got!r} is no object"
        for name, item in wanted.items():
            if reason := unlike(got.get(name), item, f"{where}.{name}"):
                return reason
        return None
    if isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            return f"{where}: {got!r} has not the length of {wanted!r}"
        for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
            if reason := unlike(one, other, f"{where}.{index}"):
                return reason
        return None
    same = got == wanted and isinstance(got, bool) == isinstance(wanted, bool)
    return None if same else f"{where}: {got!r} is not {wanted!r}"


def _holds(got: Any, test: str, operand: Any) -> bool:
    number = isinstance(got, (int, float)) and not isinstance(got, bool)
    match test:
        case "$type":
            is_it = {
                "string": isinstance(got, str),
                "number": number,
                "boolean": isinstance(got, bool),
                "object": isinstance(got, dict),
                "list": isinstance(got, list),
            }
            return is_it[operand]
        case "$matches":
            return isinstance(got, str) and re.search(operand, got) is not None
        case "$contains":
            if isinstance(got, str):
                return operand in got
            return isinstance(got, list) and any(unlike(item, operand) is None for item in got)
        case "$excludes":
            return isinstance(got, (str, list)) and not _holds(got, "$contains", operand)
        case "$length":
            return isinstance(got, (str, list)) and len(got) == operand
        case "$at_least":
            return number and got >= operand
        case "$at_most":
            return number and got <= operand
        case "$not":
            return unlike(got, operand) is not None
    raise AssertionError(f"unknown test {test!r}")


def as_json(value: Any) -> Any:
    """A result of the SDK as the API has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {}
        for field in dataclasses.fields(value):
            bare = field.name.removesuffix("_")
            found[bare if keyword.iskeyword(bare) else field.name] = as_json(getattr(value, field.name))
        return found
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return bytes_result(value, None)
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    return value


def bytes_result(data: bytes, encoding: str | None) -> dict[str, str]:
    if encoding != "base64":
        try:
            return {"data": data.decode("utf-8"), "encoding": "utf8"}
        except UnicodeDecodeError:
            pass
    return {"data": base64.b64encode(data).decode(), "encoding": "base64"}


def arguments(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments with the API's names as keyword arguments of the SDK."""
    given = dict(args)
    for name in DURATIONS:
        if name in given:
            given[name.removesuffix("_ms")] = given.pop(name) / 1000
    if "argv" in given:
        given["command"] = given.pop("argv")
    for name, encoding in (("stdin", "stdin_encoding"), ("data", "data_encoding")):
        if name in given:
            base64_encoded = given.pop(encoding, "utf8") == "base64"
            given[name] = base64.b64decode(given[name]) if base64_encoded else given[name].encode()
    return {name + "_" if keyword.iskeyword(name) else name: value for name, value in given.items()}

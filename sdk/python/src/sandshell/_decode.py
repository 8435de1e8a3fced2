"""JSON objects into the dataclasses of `models`.

A plan of converters is made once for each class from its annotations. Fields that the class does not
have are passed over, so that a newer server is understood; a missing required field is a
`ProtocolError`.
"""

from __future__ import annotations

import dataclasses
import keyword
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

from .errors import ProtocolError

T = TypeVar("T")
Convert = Callable[[Any], Any]


def decode(kind: type[T], value: Any) -> T:
    """`value`, which came as JSON, as a `kind`."""
    if not isinstance(value, Mapping):
        raise ProtocolError(f"expected a {kind.__name__}, got {type(value).__name__}")
    try:
        fields = {
            python: convert(value[wire]) if convert else value[wire]
            for wire, python, convert in _plan(cast(Hashable, kind))
            if wire in value
        }
        return kind(**fields)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ProtocolError(f"not a {kind.__name__}: {error}") from error


@cache
def _plan(kind: Hashable) -> list[tuple[str, str, Convert | None]]:
    assert isinstance(kind, type) and dataclasses.is_dataclass(kind)
    hints = typing.get_type_hints(kind)
    plan = []
    for field in dataclasses.fields(kind):
        bare = field.name.removesuffix("_")
        wire = bare if keyword.iskeyword(bare) else field.name
        plan.append((wire, field.name, _converter(hints[field.name])))
    return plan


def _converter(hint: Any) -> Convert | None:
    """How a value of this annotation is made; None when JSON has it already."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        inner = [each for each in (_converter(arg) for arg in typing.get_args(hint)) if each]
        if not inner:
            return None
        only = inner[0]
        return lambda value: None if value is None else only(value)
    if origin is list:
        item = _converter(typing.get_args(hint)[0])
        if item is None:
            return None
        return lambda values: [item(value) for value in values]
    if hint is datetime:
        return datetime.fromisoformat
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return lambda value: decode(hint, value)
    return None

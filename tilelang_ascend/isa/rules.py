"""The rules every call obeys: dtypes, attribute values, argument limits; then the record's own `check_fn`."""

from __future__ import annotations

from .base import TEXT, Call


def check(call: Call) -> str | None:
    """Error text of the first broken rule, None when all known values are legal."""
    intrin = call.intrin
    for rule in (_generation, _attrs, _dtypes, _limits):
        problem = rule(call)
        if problem:
            return f"{intrin.name} ({intrin.api}): {problem}"
    problem = intrin.check_fn(call) if intrin.check_fn else None
    return f"{intrin.name} ({intrin.api}): {problem}" if problem else None


def _generation(call: Call) -> str | None:
    if call.intrin.runs_on(call.generation):
        return None
    return f"does not exist on generation {call.generation}"


def _attrs(call: Call) -> str | None:
    for name, legal in call.intrin.attrs.items():
        if name not in call.attrs:
            return f"attribute {name} is missing"
        if legal is not TEXT and str(call.attrs[name]) not in legal:
            return f"{name}={call.attrs[name]!r} is none of {', '.join(legal)}"
    unknown = [name for name in call.attrs if name not in call.intrin.attrs]
    return f"unknown attribute {unknown[0]}" if unknown else None


def _dtypes(call: Call) -> str | None:
    if call.dtypes in call.intrin.signatures[call.generation]:
        return None
    legal = "; ".join(", ".join(row) for row in call.intrin.signatures[call.generation])
    return f"dtypes ({', '.join(call.dtypes)}) are not supported on {call.generation}; supported: {legal}"


def _limits(call: Call) -> str | None:
    for arg in call.intrin.args:
        value = call.args[arg.name]
        if value is None or arg.kind != "int":
            continue
        if arg.lo is not None and value < arg.lo or arg.hi is not None and value > arg.hi:
            return f"{arg.name}={value} is outside {arg.lo}..{arg.hi}"
    return None

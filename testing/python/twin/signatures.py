"""Signatures of C++ functions in a form that can be compared: types of the parameters, template types numbered by appearance."""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"(?<![\w.>:])(\w+)\(((?:[^()]|\([^()]*\))*)\)\s*(?:const)?\s*\{")


def split(text: str) -> list[str]:
    """Parts between commas outside of brackets."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [*parts, part.strip()] if part.strip() else parts


def parameter(text: str) -> str:
    """The type of a parameter, without its name; "=" behind it if it has a default. What the callee does with a copy does not count."""
    default = "=" if "=" in text else ""
    text = re.sub(r"\s*([&*])\s*", r"\1 ", re.sub(r"\s+", " ", text.split("=")[0].strip().replace("AscendC::", "")))
    array = "[]" if re.search(r"\[\w*\]\s*$", text) else ""
    text = re.sub(r"\[\w*\]\s*$", "", text).strip()
    text = re.sub(r"(?<=[\s&*>])\w+$", "", text).strip() if re.search(r"[\s&*>]\w+$", text) else text
    text = re.sub(r"^const (\w+)$", r"\1", text)
    return text + array + default


def signature(parameters: list[str], template: list[str]) -> list[str]:
    """Canonical form of a parameter list."""
    types = [parameter(p) for p in parameters]
    names = [re.sub(r"=.*", "", t).split()[-1] for t in template if t.startswith(("typename", "class"))]
    order: list[str] = []
    for t in types:
        order += [w for w in re.findall(r"\w+", t) if w in names and w not in order]
    return [re.sub(r"\w+", lambda m: f"T{order.index(m[0])}" if m[0] in order else m[0], t) for t in types]


def functions(text: str, names) -> dict[str, list[list[str]]]:
    """name -> signatures of the functions and methods that preprocessed C++ defines, for `names`."""
    found: dict = {}
    for match in _FUNCTION.finditer(text):
        name, params = match[1], [p for p in split(match[2]) if "tla_line" not in p]
        head = text[: match.start()].rstrip()
        if name not in names or re.search(r"(return|else|[=!(,;:])$", head) or any("tla::twin" in p for p in params):
            continue
        declared = signature(params, _template(head))
        if declared not in found.setdefault(name, []):
            found[name].append(declared)
    return found


_STRUCT = re.compile(r"\bstruct (\w*(?:Params\w*|Info)) \{")
_MEMBERS = re.compile(r"^\s*(\w+)\s+(\w+.*)$", re.S)


def structs(text: str) -> dict[str, dict]:
    """name -> {"fields": {field: (type, default)}, "constructors": [[(type of the parameter, field it sets)]]} of parameter structs in
    preprocessed C++."""
    found = {}
    for match in _STRUCT.finditer(text):
        end, depth = match.end(), 1
        while depth:
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        found[match[1]] = _struct(match[1], text[match.end() : end - 1])
    return found


def _struct(name: str, body: str) -> dict:
    constructors = []
    for made in re.finditer(rf"\b{name}\(([^()]+)\)\s*:\s*(.*?)\{{", body, re.S):
        params = [p.rsplit(" ", 1) for p in split(re.sub(r"\s+", " ", made[1]))]
        sets = {value: field for field, value in re.findall(r"(\w+)\((\w+)\)", made[2])}
        constructors.append([(kind, sets.get(param, param)) for kind, param in params])
    rest = re.sub(rf"\b{name}\([^()]*\)\s*(?:= default;|:.*?\{{[^{{}}]*\}})", "", body, flags=re.S)
    members = [m for m in map(_MEMBERS.match, rest.split(";")) if m and m[1] != "using"]
    fields = {}
    for kind, names in (m.groups() for m in members):
        for declared in split(names):
            field, _, default = (part.strip() for part in declared.partition("="))
            known = {"true": True, "false": False, "T(0)": 0}
            fields[field] = kind, known[default] if default in known else int(default) if default.isdigit() else default.rpartition(":")[2]
    return {"fields": fields, "constructors": constructors}


def wider(name: str, ours: dict, public: dict) -> list[str]:
    """Where a struct takes what the public one, {field: default}, does not, or means something else by it."""
    order, fields = list(public), ours["fields"]
    out = [f"{name}.{f} is no public field" for f in fields if f not in public]
    out += [f"{name}.{f} is {d!r} by default, not {public[f]!r}" for f, (_, d) in fields.items() if public.get(f, "?") not in ("?", d)]
    for params in ours["constructors"]:
        shown = f"{name}({', '.join(field for _, field in params)})"
        if [field for _, field in params] != order[: len(params)] or any(public[f] == "?" for f in order[len(params) :]):
            out.append(f"{shown} is no public constructor")
        out += [
            f"{shown}: {field} is {fields[field][0]}, not {kind}" for kind, field in params if field in fields and fields[field][0] != kind
        ]
    return out


def _template(head: str) -> list[str]:
    """Parameters of the template that a function starts with, of which `head` ends before its name."""
    start = max(head.rfind(";"), head.rfind("}"), head.rfind("{"))
    at = head.find("template <", start)
    at = at if at >= 0 else head.find("template<", start)
    if at < 0:
        return []
    first = head.index("<", at)
    depth = 0
    for i in range(first, len(head)):
        depth += (head[i] == "<") - (head[i] == ">")
        if depth == 0:
            return split(head[first + 1 : i])
    return []


def accepts(public: list[str], ours: list[str]) -> bool:
    """Whether what our signature takes is what the public one takes, whose last parameters may have defaults."""
    plain = [p.rstrip("=") for p in ours]
    shown, rest = [p.rstrip("=") for p in public[: len(plain)]], public[len(plain) :]
    return plain == shown and all(p.endswith("=") for p in rest)

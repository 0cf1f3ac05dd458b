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

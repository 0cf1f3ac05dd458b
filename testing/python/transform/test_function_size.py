"""No function of the compiler asks more than 25 questions or takes more than 8 parameters: it is a table, or several functions."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "tilelang_ascend"
ROOMS = ("analysis", "codegen", "ir", "runtime", "sim", "tile", "tileop", "transform")
MOST_BRANCHES, MOST_PARAMETERS = 25, 8
STILL_TOO_LARGE: set = set()
"""To be emptied, never filled."""


def branches(function: ast.AST) -> int:
    """Places where a function goes one way or another, those of functions inside of it included.

    One each for `if`, `elif`, `for`, `while`, `x if c else y`, `except` and `case`; one for each `and` / `or` between operands; one for each
    `for` and each `if` of a comprehension.
    """
    count = 0
    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.match_case)):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
    return count


def parameters(function: ast.FunctionDef) -> int:
    """Parameters of a function without `self` or `cls`, `*args` and `**kwargs`."""
    args = function.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def too_large(root: Path) -> list[str]:
    """The functions below `root` that exceed a limit, as ``file: function``."""
    found = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if branches(node) > MOST_BRANCHES or parameters(node) > MOST_PARAMETERS:
                    found.append(f"{path.name}: {node.name}")
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("room", ROOMS)
def test_functions_are_small(room):
    assert [x for x in too_large(PACKAGE / room) if x not in STILL_TOO_LARGE] == []


@pytest.mark.parametrize(
    "text, count",
    [
        ("if a:\n    pass\nelif b and c and d:\n    pass", 4),
        ("return [x for x in y if x if z] or (1 if a else 2)", 5),
        ("while a:\n    try:\n        b()\n    except ValueError:\n        pass", 2),
        ("match a:\n    case 1:\n        pass\n    case _:\n        pass", 2),
        ("def g():\n    for x in y:\n        pass", 1),
        ("with a:\n    assert b", 0),
    ],
)
def test_every_way_is_counted(text, count):
    assert branches(ast.parse("def f():\n    " + text.replace("\n", "\n    "))) == count


@pytest.mark.parametrize(
    "text, large",
    [
        ("def f(self, a, b, c, d, e, g, h, *, i): pass", False),
        ("def f(a, b, c, d, e, g, h, i, *, j): pass", True),
        ("def f(x):\n" + "    if x: pass\n" * 25, False),
        ("def f(x):\n" + "    if x: pass\n" * 26, True),
    ],
)
def test_what_is_too_large_is_found(tmp_path, text, large):
    (tmp_path / "a.py").write_text(text)
    assert too_large(tmp_path) == (["a.py: f"] if large else [])

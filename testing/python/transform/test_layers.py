"""Imports point one way: from what the user touches down to the tables."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "tilelang_ascend"
LAYERS = [
    {"errors", "env", "knobs", "log", "store", "arch", "isa"},
    {"ir", "arith", "native"},
    {"tile"},
    {"analysis"},
    {"tileop", "transform", "codegen"},
    {"sim"},
    {
        "language", "frontend", "interpret", "runtime", "cache", "profiler", "jit", "tools", "layout",
        "__init__", "__main__", "compat", "autotune", "autotuner", "rpc",
    },
]
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def imported_parts(path: Path):
    """First components (below the package) of everything `path` imports from the package."""
    here = path.relative_to(ROOT.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            full = [*base, *(node.module.split(".") if node.module else [])]
            names = [full] if len(full) > 1 else [[*full, a.name] for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tilelang_ascend":
            names = [node.module.split(".")]
        elif isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names if a.name.split(".")[0] == "tilelang_ascend"]
        else:
            continue
        yield from (n[1] for n in names if len(n) > 1)


def violations(path: Path) -> list[str]:
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    return [f"{path.name}: {own} imports {p}" for p in imported_parts(path) if p in RANK and RANK[p] > RANK[own]]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    assert path.relative_to(ROOT).with_suffix("").parts[0] in RANK, "a new part of the package needs a place in LAYERS"
    assert violations(path) == []


def test_the_check_can_fail(tmp_path, monkeypatch):
    package = tmp_path / "tilelang_ascend"
    (package / "isa").mkdir(parents=True)
    bad = package / "isa" / "x.py"
    bad.write_text("from ..transform import pipeline\nfrom .base import Space\n")
    monkeypatch.setattr(f"{__name__}.ROOT", package)
    assert violations(bad) == ["x.py: isa imports transform"]


def test_only_ir_imports_tvm():
    allowed = {"ir", "native", "sim"}
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        if path.relative_to(ROOT).parts[0] not in allowed:
            roots = {
                (a.name if isinstance(n, ast.Import) else n.module or "").split(".")[0]
                for n in ast.walk(ast.parse(text))
                if isinstance(n, (ast.Import, ast.ImportFrom)) and not getattr(n, "level", 0)
                for a in n.names
            }
            assert "tvm" not in roots, path

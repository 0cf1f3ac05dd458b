"""Imports point one way: every room of the package has one rank, and imports from rooms below it only."""

import ast
from functools import lru_cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "tilelang_ascend"
ORDER = """
    version collector errors env knobs log store descendants warm isa arch targets stand_in arith native ir tile
    analysis analysis.index analysis.tiles analysis.dependence
    tileop tileop.base tileop.copy tileop.cube tileop.scalar
    tileop.vector tileop.vector.graph tileop.vector.math tileop.vector.emit tileop.vector.schedule
    tileop.vector.fold tileop.vector.nest tileop.ops
    transform transform.canonicalize transform.place transform.nests transform.lower transform.memory transform.schedule
    transform.sync transform.cores transform.fit transform.pipeline transform.gen_docs
    codegen sim runtime cache frontend language layout interpret profiler rpc jit autotune autotuner compat tools
""".split()
"""From the tables up to what the user touches."""
RANK = {name: i for i, name in enumerate(ORDER)}
PASSES = ("canonicalize", "place", "nests", "lower", "memory", "schedule", "sync", "cores")


def files(root: Path):
    return sorted(p for p in root.rglob("*.py"))


def module_of(path: Path, root: Path) -> str:
    """Dotted name below the package; empty for its `__init__`."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@lru_cache(maxsize=None)
def import_statements(path: Path) -> list:
    return [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, (ast.Import, ast.ImportFrom))]


def imports(path: Path, root: Path, known: set):
    """Modules of the package that `path` imports, wherever it does."""
    here = path.relative_to(root).parts[:-1]
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*here[: len(here) - node.level + 1], *(node.module.split(".") if node.module else [])]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tilelang_ascend":
            base = node.module.split(".")[1:]
        elif isinstance(node, ast.Import):
            yield from (".".join(a.name.split(".")[1:]) for a in node.names if a.name.split(".")[0] == "tilelang_ascend")
            continue
        else:
            continue
        for alias in node.names:
            whole = ".".join([*base, alias.name])
            yield whole if whole in known else ".".join(base)


def room_of(module: str) -> str | None:
    """The longest name of `ORDER` the module belongs to."""
    parts = module.split(".")
    return next((name for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in RANK), None)


def violations(root: Path = PACKAGE) -> list[str]:
    known = {module_of(p, root) for p in files(root)}
    found = []
    for path in files(root):
        own = module_of(path, root)
        if own in ("", "__main__"):
            continue
        room = room_of(own)
        if room is None:
            found.append(f"{own} has no place in ORDER")
            continue
        for other in imports(path, root, known):
            there = room_of(other) if other else None
            if there is not None and RANK[there] > RANK[room] or other == "" and room != "compat":  # which is a face of all of it
                found.append(f"{own} imports {other or 'the package itself'}")
    return found


def test_imports_point_down():
    assert violations() == []


def test_rooms_of_passes_do_not_know_each_other():
    known = {module_of(p, PACKAGE) for p in files(PACKAGE)}
    rooms = {f"transform.{name}" for name in PASSES}
    for path in files(PACKAGE / "transform"):
        own = room_of(module_of(path, PACKAGE))
        if own in rooms:
            others = {room_of(m) for m in imports(path, PACKAGE, known)} & rooms
            assert others <= {own}, f"{path.name}: {others - {own}}"


def test_no_pass_imports_a_pass():
    from tilelang_ascend.transform.pipeline import PASSES as passes

    modules = {p.run.__module__.removeprefix("tilelang_ascend.") for p in passes}
    known = {module_of(p, PACKAGE) for p in files(PACKAGE)}
    for module in modules:
        path = PACKAGE / (module.replace(".", "/") + ".py")
        assert not (set(imports(path, PACKAGE, known)) - {module}) & modules, module


@pytest.mark.parametrize(
    "files, complaint",
    [
        ({"isa/base.py": "def check(x):\n    from ..tools import rules\n"}, "isa.base imports tools"),
        ({"runtime/kernel.py": "from ..profiler import Profiler\n", "profiler/__init__.py": "from ..runtime.kernel import K\n"}, "runtime.kernel imports profiler"),
        ({"tileop/vector/emit/a.py": "from ..nest.b import is_tile\n", "tileop/vector/nest/b.py": ""}, "tileop.vector.emit.a imports tileop.vector.nest.b"),
        ({"compat/sites.py": "from ..tools.script import is_internal\n", "tools/script.py": ""}, "compat.sites imports tools.script"),
        ({"sim/lower.py": "from ..jit.words import x\n", "jit/words.py": ""}, "sim.lower imports jit.words"),
        ({"somewhere/a.py": ""}, "somewhere.a has no place in ORDER"),
    ],
)  # fmt: skip
def test_the_check_finds_the_circles_there_were(tmp_path, files, complaint):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if "tools" in complaint and not (tmp_path / "tools").exists():
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools" / "__init__.py").write_text("")
    assert complaint in violations(tmp_path)


DOOR = ("ir/base.py", "ir/door.py", "ir/llvm.py", "ir/sym.py", "native.py", "rpc/door.py")


def test_tvm_is_reached_through_its_door_only():
    for path in files(PACKAGE):
        nodes = import_statements(path)
        roots = {
            (a.name if isinstance(n, ast.Import) else n.module or "").split(".")[0]
            for n in nodes
            if not getattr(n, "level", 0)
            for a in n.names
        }
        name = path.relative_to(PACKAGE).as_posix()
        assert not roots & {"tvm", "tvm_ffi"} or name in DOOR, name
        if not name.startswith("compat/"):
            assert not any(isinstance(n, ast.ImportFrom) and (n.module or "").endswith("ir.door") for n in nodes), name


def test_the_door_hands_out_names_and_no_library():
    from tilelang_ascend import ir

    assert not hasattr(ir, "tvm") and not hasattr(ir, "tvm_ffi")

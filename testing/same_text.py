"""Whether two states of the compiler emit the same.

    python -m testing.same_text record FOLDER [--seeds FIRST LAST] [--tests NAME …]    compile what tests, examples and the fuzzer compile
    python -m testing.same_text compare BEFORE AFTER [--show N]                        the kernels whose text or program differs

`record` runs the tests of kernels with FOLDER as the cache and compiles seeds of the fuzzer into it (a quarter of an hour and about a gigabyte
on two cores); do it on either commit, in the same checkout, so that kernels have the same source lines. Kernels are the same if their traced
Tile IR, chip and options are; a kernel that only one state compiled is refused by the other, or its test has changed. Exit status 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import subprocess
import sys
from multiprocessing import Pool
from pathlib import Path
from typing import Sequence

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("kernels", "catalogue", "tileop", "examples", "pitfalls", "frontend", "machine", "validate")
SEEDS = (0, 2000)
CACHE = "TILELANG_CACHE_DIR"


def record(folder: Path, seeds: range, names: Sequence[str]) -> int:
    """Fill the cache in `folder` with the kernels of seeds and of folders of tests."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TILELANG_TEST_CACHE_DIR": str(folder)}
    tests = [str(ROOT / "testing" / "python" / name) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode if tests else 0
    os.environ[CACHE] = str(folder)
    with Pool(2, maxtasksperchild=200) as pool:
        refused = sum(pool.imap_unordered(_compile_seed, seeds, chunksize=20))
    print(f"{len(seeds)} seeds, {refused} refused; tests ended with status {status}")
    return 0


def _compile_seed(seed: int) -> bool:
    """Compile a kernel of the fuzzer; True if it is refused."""
    import tilelang_ascend as tilelang

    from .fuzz import check
    from .fuzz.generate import generate

    case = generate(seed)
    try:
        tilelang.compile(check.trace(case.kernel(), f"<seed {seed}>"), target=case.chip)
    except tilelang.errors.TilelangAscendError:
        return True
    return False


def entries(folder: Path) -> dict:
    """Digest of what makes a kernel -> its key, of all kernels in a cache."""
    from tilelang_ascend.store import Store

    store, found = Store(folder), {}
    for path in sorted(store.section.glob("*/*")):
        files = store.read(path.name)
        if files:
            found[_identity(files)] = path.name
    return found


def _identity(files: dict) -> str:
    from tilelang_ascend.runtime.artifact import Artifact

    artifact = Artifact.from_files(files)
    key = (artifact.tile_ir_json, artifact.chip, repr(sorted(artifact.options.items())), repr(artifact.signature))
    return hashlib.sha256("\0".join(key).encode()).hexdigest()


def compare(before: Path, after: Path, show: int) -> int:
    """Print what differs."""
    from tilelang_ascend.runtime.artifact import Artifact
    from tilelang_ascend.store import Store

    old, new = entries(before), entries(after)
    stores = Store(before), Store(after)
    different = 0
    for kernel in old.keys() & new.keys():
        a, b = (Artifact.from_files(store.read(found[kernel])) for store, found in zip(stores, (old, new)))
        if (a.kernel_source, a.host_source, a.ascend_ir_json) == (b.kernel_source, b.host_source, b.ascend_ir_json):
            continue
        different += 1
        if different <= show:
            print(f"--- {a.name} for {a.chip}")
            lines = difflib.unified_diff(a.kernel_source.splitlines(), b.kernel_source.splitlines(), "before", "after", lineterm="", n=2)
            print("\n".join(lines) or "the text is the same, the program differs")
    both = len(old.keys() & new.keys())
    print(f"{both} kernels in both, {different} differ; {len(old) - both} only before, {len(new) - both} only after")
    return int(different > 0 or len(old) != both or len(new) != both)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m testing.same_text", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record")
    one.add_argument("folder", type=Path)
    one.add_argument("--seeds", type=int, nargs=2, default=SEEDS, metavar=("FIRST", "LAST"))
    one.add_argument("--tests", nargs="*", default=TESTS, metavar="NAME", help="folders of testing/python; the default is all with kernels")
    two = commands.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    two.add_argument("--show", type=int, default=5, metavar="N", help="kernels whose difference is printed")
    args = parser.parse_args()
    if args.command == "record":
        return record(args.folder.resolve(), range(*args.seeds), args.tests)
    return compare(args.before, args.after, args.show)


if __name__ == "__main__":
    sys.exit(main())

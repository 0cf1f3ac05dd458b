"""What `import tilelang_ascend` costs alone, and on top of `import tvm`. Budget: 0.3 s."""

import statistics
import subprocess
import sys

REPEAT = 5
BUDGET = 0.3


def seconds(code: str) -> float:
    """Median wall time of `code` in a fresh interpreter, without the interpreter's own start."""
    program = f"import time; t = time.perf_counter()\n{code}\nprint(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(REPEAT)
    ]
    return statistics.median(float(run.stdout.split()[-1]) for run in runs)


def main():
    tvm = seconds("import tvm")
    alone = seconds("import tilelang_ascend")
    language = seconds("import tilelang_ascend, tilelang_ascend.language")
    print(f"import tvm                        {tvm:6.3f} s")
    print(f"import tilelang_ascend            {alone:6.3f} s  ({alone / BUDGET:4.0%} of the budget)")
    print(f"import tilelang_ascend.language   {language:6.3f} s  ({(language - tvm) / BUDGET:4.0%}, tvm not counted)")


if __name__ == "__main__":
    main()

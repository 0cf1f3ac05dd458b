"""`python -m tilelang_ascend`."""

from .tools.cli import main

main(prog_name="tilelang-ascend")

"""`tilelang.compile`, `par_compile` and `lower`: from a traced kernel to a kernel object or to text."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from .. import interpret
from ..errors import TilelangAscendError
from ..log import get_logger
from ..runtime.params import Parameter, normalize_out_idx
from .kernel import JITKernel
from .pass_config import normalize_pass_configs


def is_prim_func(value: Any) -> bool:
    """True for a traced kernel, or one that is to be interpreted; never imports tvm, since without it there is none."""
    if interpret.is_source(value):
        return True
    tirx = sys.modules.get("tvm.tirx")
    return tirx is not None and isinstance(value, tirx.PrimFunc)


def declared_out_idx(func) -> tuple[int, ...]:
    """Indices of the parameters the kernel itself declares as outputs with `T.empty`."""
    declared = func.attrs.get("tl.out_idx") if func.attrs else None
    return normalize_out_idx([int(i) for i in declared], len(func.params)) if declared is not None else ()


def compile_prim_func(func, out_idx, execution_backend: str | None, target: Any, options: dict[str, Any]) -> JITKernel:
    """Compile a traced kernel with already normalised options."""
    from .build import build_artifact

    if interpret.is_source(func) or interpret.enabled():
        kernel = interpret.compiled(func, out_idx)
        if kernel is not None:
            return kernel
    declared = declared_out_idx(func)
    if declared and out_idx is not None:
        raise ValueError("out_idx is given, but the kernel already declares its outputs with T.empty; drop out_idx")
    indices = declared or normalize_out_idx(out_idx, len(func.params))
    kernel = JITKernel(build_artifact(func, indices, target, options), execution_backend)
    kernel._tl_source = getattr(func, "_tl_source", None)
    return kernel


def compile(
    func: Any = None,
    out_idx: int | list[int] | None = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: dict | None = None,
    compile_flags: str | list[str] | None = None,
) -> JITKernel:
    """Compile a `@T.prim_func`.

    Args:
        func: the traced kernel.
        out_idx: parameters a call allocates and returns.
        execution_backend, target, pass_configs: as for `jit`.
        target_host, verbose, compile_flags: accepted for compatibility, without effect.

    Raises:
        TypeError: `func` is no traced kernel.
        errors.TilelangAscendError: the kernel cannot be compiled.
    """
    if not is_prim_func(func):
        raise TypeError(f"tilelang.compile takes a function decorated with @T.prim_func, not {type(func).__name__}")
    return compile_prim_func(func, out_idx, execution_backend, target, normalize_pass_configs(pass_configs))


def par_compile(
    funcs: Iterable[Any],
    out_idx: int | list[int] | None = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: dict | None = None,
    compile_flags: str | list[str] | None = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
) -> list[JITKernel | None]:
    """`compile` for many kernels, in threads, in order; with `ignore_error` a failure gives None."""

    def one(func):
        return compile(func, out_idx, execution_backend, target, pass_configs=pass_configs)

    return par_map(one, list(funcs), num_workers, ignore_error)


def par_map(one: Callable[[Any], JITKernel], items: list, num_workers: int | None, ignore_error: bool) -> list:
    """`one` over `items` in threads with a progress bar on terminals."""
    from tqdm import tqdm

    def guarded(item):
        try:
            return one(item)
        except TilelangAscendError as error:
            if not ignore_error:
                raise
            get_logger().warning("skipped a configuration that does not compile: %s", str(error).splitlines()[0])
            return None

    workers = num_workers or min(len(items), os.cpu_count() or 1) or 1
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(guarded, items)
        return list(tqdm(results, total=len(items), desc="Parallel Compiling", disable=None))


@dataclass(frozen=True)
class CompiledArtifact:
    """What `lower` returns.

    Attributes:
        device_mod: the lowered program (Ascend IR).
        host_mod: None; the host launcher exists as text only.
        params: the kernel's parameters.
        kernel_source, host_source: emitted Ascend C.
    """

    device_mod: Any
    params: tuple[Parameter, ...]
    kernel_source: str
    host_source: str
    host_mod: None = None


def lower(
    func_or_mod: Any,
    target: Any = None,
    target_host: Any = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> CompiledArtifact:
    """Compile a traced kernel and return IR and text instead of a callable. The flags have no effect."""
    target = None if target == "auto" else target
    artifact = compile(func_or_mod, target=target).artifact
    return CompiledArtifact(artifact.ascend_ir, artifact.signature.parameters, artifact.kernel_source, artifact.host_source)

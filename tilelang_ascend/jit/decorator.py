"""`tilelang.jit`: the decorator, and the object it leaves behind."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any, Callable, Iterable

from .. import interpret
from ..errors import InvalidKernel
from ..runtime.graphs import outside_of_graphs
from ..targets import rules
from . import hooks
from .compile import compile_prim_func, is_prim_func, par_map
from .fingerprint import call_fingerprint
from .kernel import JITKernel
from .pass_config import normalize_pass_configs

RETURN_KERNEL = "__return_kernel"
"""Keyword of a call that wants the kernel, not its result."""


class JITImpl:
    """A function decorated with `@tilelang.jit`.

    *Lazy* functions return an inner `@T.prim_func`; calling them compiles and returns the kernel. *Eager* functions are
    kernels themselves; calling them with tensors compiles for these tensors and runs.

    Equal calls reuse the compiled kernel. A call counts as equal only while the code, globals, closures, classes and
    modules that tracing could read, also in functions and macros it reaches, are unchanged too.

    Attributes:
        func, signature: the user's function.
        out_idx: parameters a call allocates and returns.
        settings: (execution_backend, target, compiler options).
    """

    def __init__(self, fn: types.FunctionType, *, out_idx, execution_backend, target, options: dict[str, Any]):
        functools.update_wrapper(self, fn)
        self.func = fn
        self.signature = inspect.signature(fn)
        self.out_idx = out_idx
        self.settings = (execution_backend, target, options)
        self._templates: dict[Any, Any] = {}
        self._kernels: dict[Any, JITKernel] = {}

    @functools.cached_property
    def mode(self) -> str:
        """``lazy`` or ``eager``, read from the source; the function is not executed to find out."""
        from ..frontend import is_eager

        return "eager" if is_eager(self.func) else "lazy"

    @outside_of_graphs
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Lazy: the compiled kernel. Eager: run on the tensors given, return the outputs; with ``__return_kernel=True`` the kernel instead."""
        if kwargs.pop(RETURN_KERNEL, False):
            return self.compile(*args, **kwargs)
        kwargs = hooks.completed(self, args, kwargs)
        if self.mode == "lazy":
            return self._lazy_kernel(args, kwargs)
        if interpret.enabled():
            return interpret.call_eager(self.func, args, kwargs)
        kernel, inputs = self._eager_kernel(args, kwargs, launch=True)
        return kernel(*inputs)

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """Compile without running. An eager kernel takes the values of its `T.const` and `T.dynamic` names instead of tensors."""
        kwargs = hooks.completed(self, args, kwargs)
        return self._lazy_kernel(args, kwargs) if self.mode == "lazy" else self._eager_kernel(args, kwargs)[0]

    def get_tir(self, *args: Any, **kwargs: Any):
        """The traced kernel (Tile IR), not lowered."""
        return self._trace_lazy(args, kwargs) if self.mode == "lazy" else self._bind_eager(args, kwargs)[0].func

    def get_kernel_source(self, *args: Any, kernel_only: bool = True, **kwargs: Any) -> str:
        """The Ascend C for these arguments."""
        return self.compile(*args, **kwargs).get_kernel_source(kernel_only)

    def launch_inputs(self, *args: Any, **kwargs: Any) -> tuple:
        """What an eager call with these arguments hands to the kernel; None for tensors it leaves out."""
        return self._bind_eager(args, kwargs)[0].inputs

    def par_compile(
        self, configs: Iterable[dict | tuple], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Compile many configurations (keyword dicts or positional tuples) in threads, in order.

        With `ignore_error` a configuration that does not compile gives None instead of raising.
        """

        def one(config):
            return self.compile(**config) if isinstance(config, dict) else self.compile(*config)

        return par_map(one, list(configs), num_workers, ignore_error)

    def __repr__(self) -> str:
        return f"<JITImpl {self.func.__module__}.{self.func.__qualname__}>"

    def __get__(self, instance: Any, owner: type | None = None):
        """A decorated method gets its instance as first argument."""
        return self if instance is None else functools.partial(self, instance)

    def _lazy_kernel(self, args: tuple, kwargs: dict) -> JITKernel:
        # A missing or surplus argument is the caller's error and must read like one.
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        key = call_fingerprint(self.func, bound.args, bound.kwargs)
        return self._remember(key, lambda: self._trace_lazy(args, kwargs))

    def _trace_lazy(self, args: tuple, kwargs: dict):
        from ..frontend import trace

        return trace(self.func, args, kwargs)

    def _eager_kernel(self, args: tuple, kwargs: dict, launch: bool = False) -> tuple[JITKernel, tuple]:
        """The kernel for these tensors, and the arguments of its launch."""
        bound, key = self._bind_eager(args, kwargs, launch)
        return self._remember(key, lambda: bound.func), bound.inputs

    def _bind_eager(self, args: tuple, kwargs: dict, launch: bool = False):
        """The specialisation for a call, and a key that is None when it must not be reused."""
        from ..frontend import EagerTemplate, scalar_parameters

        if self.out_idx is not None:
            raise InvalidKernel("out_idx has no meaning for an eager kernel", hint="create the outputs with T.empty and return them")
        run_time = scalar_parameters(self.func)
        names = list(self.signature.parameters)
        fixed = [None if k < len(names) and names[k] in run_time else v for k, v in enumerate(args)]
        named = {k: None if k in run_time else v for k, v in kwargs.items()}
        seen = call_fingerprint(self.func, tuple(fixed), named, skip_tensors=True)
        template = self._templates.get(seen) or EagerTemplate(self.func)
        if seen is not None:
            self._templates[seen] = template
        bound = template.bind(args, kwargs, launch)
        return bound, None if seen is None else (seen, bound.key)

    def _remember(self, key: Any, trace: Callable[[], Any]) -> JITKernel:
        key = None if key is None else (key, rules())
        kernel = self._kernels.get(key) if key is not None else None
        if kernel is None:
            backend, target, options = self.settings
            kernel = compile_prim_func(trace(), self.out_idx, backend, target, options)
            if key is not None:
                self._kernels[key] = kernel
        return kernel


def jit(
    func: Callable | None = None,
    *,
    out_idx: int | list[int] | None = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: dict | None = None,
    debug_root_path: str | None = None,
    compile_flags: str | list[str] | None = None,
) -> Any:
    """Decorator that compiles TileLang kernels, with or without arguments.

    Args:
        out_idx: parameters (negative counts from the end) that a call allocates and returns; lazy kernels only.
        target: ``"ascend"``, ``"npuir"``, a chip's SKU or family, ``"ascend -chip=<SKU>"``, ``"ascend -cann=9"`` or a dict; None takes
            `TILELANG_DEFAULT_TARGET`. Without a chip it is that of the board of this machine, if there is one.
        execution_backend: ``"auto"``, ``"sim"``, ``"npu"`` or ``"rpc"``.
        pass_configs: compiler options (`PassConfigKey`), such as ``{"tl.cann": 9}``; those for CUDA have no effect.
        target_host, verbose, debug_root_path, compile_flags: accepted for compatibility, without effect.
    """
    options = normalize_pass_configs(pass_configs)

    def decorate(fn: Callable) -> Any:
        if is_prim_func(fn):
            return compile_prim_func(fn, out_idx, execution_backend, target, options)
        if not isinstance(fn, types.FunctionType):
            raise InvalidKernel(f"@tilelang.jit decorates a function, not {type(fn).__name__}")
        return JITImpl(fn, out_idx=out_idx, execution_backend=execution_backend, target=target, options=options)

    return decorate if func is None else decorate(func)

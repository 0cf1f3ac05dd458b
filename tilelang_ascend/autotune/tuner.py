"""`AutoTuner`: tuning as an object, for functions without decorators and for scripts that want the result itself."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, Callable

from .given import get_autotune_inputs
from .settings import AutotuneResult, CompileArgs, ProfileArgs
from .space import DERIVED, expand


class AutoTuner:
    """Tunes a function that returns a `@T.prim_func`, or one decorated with `@tilelang.jit`.

    >>> result = AutoTuner.from_kernel(matmul, configs).set_compile_args(out_idx=[-1]).run()
    """

    def __init__(self, fn: Callable, configs: Any = None):
        from ..jit import JITImpl

        self.fn = fn
        self.configs = configs
        self.profile_args = ProfileArgs()
        self.compile_args = compile_args_of(fn) if isinstance(fn, JITImpl) else CompileArgs()

    @classmethod
    def from_kernel(cls, kernel: Callable, configs: Any = None) -> "AutoTuner":
        """A tuner of `kernel`, all of whose parameters are set by each of `configs` or have defaults. Without `configs` those with
        defaults are tuned."""
        return cls(kernel, configs)

    def set_compile_args(
        self,
        out_idx: int | list[int] | None = None,
        target: Any = "auto",
        execution_backend: str | None = "auto",
        target_host: Any = None,
        verbose: bool | None = None,
        pass_configs: dict | None = None,
    ) -> "AutoTuner":
        """How configurations are compiled, as for `tilelang.jit`. Returns itself."""
        from ..jit.pass_config import normalize_pass_configs

        target = None if target == "auto" else target
        self.compile_args = CompileArgs(out_idx, target, execution_backend, normalize_pass_configs(pass_configs))
        return self

    def set_profile_args(
        self,
        warmup: float = 25,
        rep: float = 100,
        timeout: float = 100,
        supply_type: Any = None,
        ref_prog: Callable | None = None,
        supply_prog: Callable | None = None,
        rtol: float = 1e-2,
        atol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        skip_check: bool = False,
        manual_check_prog: Callable | None = None,
        cache_input_tensors: bool = False,
        early_stop: bool = False,
        early_stop_factor: float = 2.0,
        measurements: int | None = None,
        backend: str = "event",
    ) -> "AutoTuner":
        """How configurations are measured and checked; see `autotune`. `backend` names the clock of a GPU. Returns itself."""
        self.profile_args = ProfileArgs(
            timeout=timeout,
            warmup=warmup,
            rep=rep,
            measurements=measurements,
            supply_type=supply_type,
            supply_prog=supply_prog,
            ref_prog=ref_prog,
            rtol=rtol,
            atol=atol,
            max_mismatched_ratio=max_mismatched_ratio,
            manual_check_prog=manual_check_prog,
            skip_check=skip_check,
        )
        return self

    def run(self, warmup: float | None = None, rep: float | None = None, timeout: float | None = None, **_ignored: Any) -> AutotuneResult:
        """Tune, and return the best configuration with its kernel.

        Args:
            warmup, rep, timeout: as in `set_profile_args`; None keeps what that has set. All other arguments are without
                effect: they steer how GPUs share the work.

        Raises:
            report.TuningFailed: no configuration works.
        """
        from .session import tune

        signature = inspect.signature(self.fn)
        asked: dict[str, Any] = {"warmup": warmup, "rep": rep, "timeout": timeout}
        profile = replace(self.profile_args, **{name: value for name, value in asked.items() if value is not None})
        given = get_autotune_inputs()
        subject = self._subject(given)
        return tune(subject, self._space(subject, signature), signature, profile, given, derived=self.configs is None)

    def _space(self, subject, signature: inspect.Signature) -> list[dict]:
        if self.configs is not None:
            return expand(self.configs, signature)
        from ..targets import resolve_chip
        from .derive import derive

        return derive(subject.trace, signature, (), resolve_chip(self.compile_args.target), DERIVED)

    def _subject(self, given):
        from ..jit import JITImpl
        from .program import Subject, call_frontend

        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        if isinstance(self.fn, JITImpl):
            args = tuple(given or ()) if self.fn.mode == "eager" else ()
            return Subject(name, lambda config: self.fn.get_tir(*args, **config), self.compile_args)
        return Subject(name, lambda config: call_frontend(self.fn, (), config), self.compile_args)


def compile_args_of(implementation) -> CompileArgs:
    """The settings of a `JITImpl`."""
    backend, target, options = implementation.settings
    return CompileArgs(implementation.out_idx, target, backend, options)

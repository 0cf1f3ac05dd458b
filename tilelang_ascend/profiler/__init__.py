"""Measuring a kernel and comparing it with a reference."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Sequence

import numpy as np

from ..runtime import tensors
from ..runtime.arguments import bind
from ..runtime.launches import Measure, notify
from . import bench
from .bench import do_bench
from .supply import TensorSupplyType, make_inputs

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]


class Profiler:
    """Runs a kernel on made-up inputs. Outputs are the returned tensors, or else the written parameters."""

    def __init__(self, kernel, supply_type: TensorSupplyType = TensorSupplyType.Auto):
        self.kernel = kernel
        self.supply_type = supply_type

    @property
    def func(self) -> Callable:
        """The kernel, under the name upstream's profiler has for it."""
        return self.kernel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*args, **kwargs)

    def get_inputs(self, dynamic_symbolic_constraints: dict[str, int] | None = None) -> list[Any]:
        """The inputs every method uses when it is given none; equal on every call."""
        return make_inputs(self.kernel.artifact.signature, self.supply_type, dynamic_symbolic_constraints)

    def _get_inputs(self, with_output: bool = False, dynamic_symbolic_constraints: dict[str, int] | None = None) -> list[Any]:
        """`get_inputs` under the name benchmarks know. Results are no arguments of a call here, so there is nothing to add for them."""
        return self.get_inputs(dynamic_symbolic_constraints)

    def run_once(self, func: Callable | None = None, input_tensors: Sequence[Any] | None = None) -> Any:
        """One call of the kernel (or of `func` on the same inputs)."""
        return (func or self.kernel)(*self._inputs(input_tensors))

    def do_bench(
        self,
        func: Callable | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "auto",
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        dynamic_symbolic_constraints: dict[str, int] | None = None,
        warm: bool = True,
        **_ignored: Any,
    ) -> float | list[float]:
        """Time of one call in milliseconds.

        Args:
            func: measure this instead of the kernel, on the same inputs (`bench.do_bench`).
            warmup, rep: milliseconds to spend warming up and measuring; n_warmup, n_repeat: numbers of launches instead, when positive.
            backend: one of `bench.BACKENDS`. ``wall`` gives the wall clock of this machine; all others give, where the
                kernel runs on an NPU, here or on a server, the time between events there, without transfers; else the *simulated* time of
                the kernel on its chip, which needs one run and no repetition.
            input_tensors: None: made up, for a kernel that runs on a server by that server.
            dynamic_symbolic_constraints: values of shape variables for made-up inputs.
            warm: of simulated time: see `bench.do_bench`.
        """
        bench.check(backend, return_mode)
        measuring = self._measuring(input_tensors, dynamic_symbolic_constraints) if func is None and backend != "wall" else None
        if measuring is not None:
            with measuring as measure:
                times, clock = measure(0, 1)
                if clock == "simulated":
                    return bench.simulated(times[0] / 1e3, quantiles)
                times, _ = measure(*bench.counts(times[0] / 1e3, warmup, rep, n_warmup, n_repeat))
            return bench.summary([microseconds / 1e3 for microseconds in times], quantiles, return_mode)
        inputs = self._inputs(input_tensors, dynamic_symbolic_constraints)
        if func is None and backend != "wall":
            report = self.kernel.simulate(*inputs, values=False, checks=False, warm=warm)
            return bench.simulated(report.simulated_us / 1e3, quantiles)
        target = func or self.kernel
        call = lambda: target(*inputs)
        return do_bench(call, warmup, rep, n_warmup, n_repeat, quantiles, backend=backend, return_mode=return_mode, warm=warm)

    def assert_allclose(
        self,
        reference_program: Callable,
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compare with `reference_program` on the same inputs.

        Raises:
            AssertionError: more than `max_mismatched_ratio` of an output's elements differ, or shapes or counts do.
        """
        self.manual_assert_close(
            reference_program,
            input_tensors,
            manual_check_prog=lambda ours, ref: _assert_close(ours, ref, atol, rtol, max_mismatched_ratio),
        )

    def manual_assert_close(
        self,
        reference_program: Callable,
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list, list], None] | None = None,
    ) -> None:
        """Hand the outputs of kernel and reference, as two lists, to `manual_check_prog`."""
        assert manual_check_prog is not None, "manual_check_prog is required"
        inputs = self._inputs(input_tensors)
        reference_inputs = [_copy(x) for x in inputs]
        ours = self._outputs(self.kernel(*inputs), inputs)
        reference = self._outputs(reference_program(*reference_inputs), reference_inputs)
        manual_check_prog(ours, reference)

    def assert_consistent(self, repeat: int = 10, input_tensors: Sequence[Any] | None = None) -> None:
        """Call the kernel `repeat` times on equal inputs and require results equal bit for bit."""
        inputs = self._inputs(input_tensors)
        first = None
        for i in range(repeat):
            fresh = [_copy(x) for x in inputs]
            returned = self.kernel(*fresh)
            outputs = [_bits(x) for x in [*self._outputs(returned, fresh), *self._outputs(None, fresh)]]
            first = first or outputs
            assert outputs == first, f"call {i} gave another result than call 0"

    def _measuring(self, given: Sequence[Any] | None, constraints: dict[str, int] | None) -> ContextManager[Measure] | None:
        """How to measure the kernel where it runs; None for the simulator of this process."""
        executor = getattr(self.kernel, "executor", None)  # kernels that are interpreted have none
        if executor is None or not hasattr(executor, "measuring"):
            return None
        artifact = self.kernel.artifact
        if given is None and hasattr(executor, "measuring_seeded"):
            return executor.measuring_seeded(artifact, self.supply_type, constraints or {})
        launch = bind(artifact.signature, artifact.name, self._inputs(given, constraints), devices=executor.devices)
        notify(artifact, launch)
        return executor.measuring(artifact, launch)

    def _inputs(self, given: Sequence[Any] | None, constraints: dict[str, int] | None = None) -> list[Any]:
        return list(given) if given is not None else self.get_inputs(constraints)

    def _outputs(self, returned: Any, inputs: Sequence[Any]) -> list[Any]:
        if returned is not None:
            return list(returned) if isinstance(returned, (list, tuple)) else [returned]
        params = self.kernel.artifact.signature.inputs
        return [x for p, x in zip(params, inputs) if p.is_buffer and p.writes]


def _assert_close(ours: list, reference: list, atol: float, rtol: float, max_mismatched_ratio: float) -> None:
    assert len(ours) == len(reference), f"kernel has {len(ours)} outputs, reference {len(reference)}"
    for i, (mine, theirs) in enumerate(zip(ours, reference)):
        a, b = _double(mine), _double(theirs)
        assert a.shape == b.shape, f"output {i}: shape {a.shape}, reference {b.shape}"
        with np.errstate(invalid="ignore"):
            wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
            worst = np.nanmax(np.abs(a - b), initial=0.0)
        ratio = float(wrong.mean()) if a.size else 0.0
        assert ratio <= max_mismatched_ratio, (
            f"output {i}: {wrong.sum()} of {a.size} elements ({ratio:.2%}) differ beyond atol={atol}, rtol={rtol}; "
            f"largest difference {worst:.3e}, first at {tuple(int(x) for x in np.argwhere(wrong)[0])}"
        )


def _double(x: Any) -> np.ndarray:
    return x.detach().double().numpy() if tensors.is_torch(x) else np.asarray(x).astype(np.float64)


def _bits(x: Any) -> bytes:
    return tensors.HostTensor(x).tobytes()


def _copy(x: Any) -> Any:
    if tensors.is_torch(x):
        return x.clone()
    return x.copy() if isinstance(x, np.ndarray) else x

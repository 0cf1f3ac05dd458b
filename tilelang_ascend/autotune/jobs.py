"""What worker processes do: compile one configuration and run it on the machine model or on the board.

Everything a job needs is imported here, before the clock of the first job starts.
"""

from __future__ import annotations

import hashlib
import statistics
from typing import Any, Callable, Mapping

from .. import cache, codegen, native  # noqa: F401
from ..errors import TilelangAscendError
from ..jit.build import build_artifact
from ..runtime.arguments import bind
from ..runtime.artifact import Artifact, load_ir
from ..runtime.executors import choose
from ..runtime.npu.executor import NpuExecutor
from ..runtime.simulation import SimulationReport, simulate
from ..sim import lower, machine  # noqa: F401
from ..transform import pipeline  # noqa: F401
from .features import features_of
from .inputs import Outputs, open_inputs, packed
from .outcome import Outcome, Status, failure

native.load()


def work(payload: Mapping[str, Any], files: Mapping[str, int]) -> dict[str, Any]:
    """Do one job.

    Args:
        payload: `TracedProgram.payload`.
        files: descriptors by name.

    Returns:
        ``outcome``: JSON of an `Outcome`; of jobs that compute values also ``outputs``, the written tensors by parameter
        name, as (dtype, shape, bytes).
    """
    try:
        artifact = _compile(payload)
        inputs = open_inputs(payload["inputs"], files[payload["file"]])
        return _DO[payload["do"]](artifact, inputs, payload)
    except (TilelangAscendError, RuntimeError, ValueError, TypeError) as error:
        return {"outcome": failure(error).to_json()}
    finally:
        cache.clear_memory()  # hundreds of configurations may pass through this process


def _compile(payload: Mapping[str, Any]) -> Artifact:
    func = load_ir(payload["tile_ir"])
    return build_artifact(func, payload["out_idx"], payload["chip"], payload["options"])


def _time(artifact: Artifact, inputs: list[Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Simulated time, and what else the time model says."""
    launch = bind(artifact.signature, artifact.name, inputs)
    report = simulate(artifact, launch, values=False, checks=False)
    return {"outcome": _judge(artifact, report, checked=False).to_json()}


def _check(artifact: Artifact, inputs: list[Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Values on the machine model, with all checks on."""
    launch = bind(artifact.signature, artifact.name, inputs)
    report = simulate(artifact, launch, values=True, checks=True)
    launch.write_back()
    return {"outcome": _judge(artifact, report, checked=True).to_json(), "outputs": _outputs(artifact, launch)}


def _values(artifact: Artifact, inputs: list[Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Values of one call on the board."""
    launch = bind(artifact.signature, artifact.name, inputs)
    choose("npu", artifact).launch(artifact, launch)
    launch.write_back()
    return {"outcome": Outcome(Status.OK, 0.0).to_json(), "outputs": _outputs(artifact, launch)}


def _board(artifact: Artifact, inputs: list[Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """The median time of `repeats` calls on the board after `warmup`."""
    executor = choose("npu", artifact)
    assert isinstance(executor, NpuExecutor), "that is its name"
    with executor.measuring(artifact, bind(artifact.signature, artifact.name, inputs)) as measure:
        times, _ = measure(payload["warmup"], payload["repeats"])
    return {"outcome": Outcome(Status.OK, statistics.median(times) / 1e3).to_json()}


_DO: dict[str, Callable[[Artifact, list[Any], Mapping[str, Any]], dict[str, Any]]] = {
    "time": _time,
    "check": _check,
    "board": _board,
    "values": _values,
}


def _judge(artifact: Artifact, report: SimulationReport, checked: bool) -> Outcome:
    if report.hazards or report.run.stuck:
        details = report.run.text() if report.hazards else f"{report.run.stuck} cannot finish"
        return Outcome(Status.WRONG, error=details.splitlines()[0], details=details)
    features = features_of(report.run)
    return Outcome(Status.OK, report.simulated_us / 1e3, report.bound_pipe, checked=checked, features=features, text=text_digest(artifact))


def text_digest(artifact: Artifact) -> str:
    """Digest of all that decides what a board does: measurements there outlive a release that emits the same."""
    digest = hashlib.sha256(artifact.kernel_source.encode())
    digest.update(artifact.host_source.encode())
    digest.update(repr([(artifact.chip, step.kernel_type, step.block_dim) for step in artifact.steps]).encode())
    return digest.hexdigest()


def _outputs(artifact: Artifact, launch) -> Outputs:
    return {p.name: packed(launch.tensors[p.name]) for p in artifact.signature.parameters if p.is_buffer and p.writes}

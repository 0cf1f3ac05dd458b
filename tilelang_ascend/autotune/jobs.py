"""What worker processes do: compile one configuration and run it on the machine model.

Everything a job needs is imported here, before the clock of the first job starts.
"""

from __future__ import annotations

from typing import Any, Mapping

from .. import cache, codegen, native  # noqa: F401
from ..errors import TilelangAscendError
from ..jit.build import build_artifact
from ..runtime import tensors
from ..runtime.arguments import bind
from ..runtime.artifact import Artifact, load_ir
from ..runtime.simulation import SimulationReport, simulate
from ..sim import lower, machine  # noqa: F401
from ..transform import pipeline  # noqa: F401
from .inputs import open_inputs
from .outcome import Outcome, Status, failure

native.load()


def measure(payload: Mapping[str, Any], files: Mapping[str, int]) -> dict[str, Any]:
    """Compile and simulate one configuration.

    Args:
        payload: `TracedProgram.payload`.
        files: descriptors by name.

    Returns:
        ``outcome``: JSON of an `Outcome`; with ``check`` in the payload also ``outputs``, the written tensors by
        parameter name, as (dtype, shape, bytes).
    """
    try:
        artifact = _compile(payload)
        inputs = open_inputs(payload["inputs"], files[payload["file"]])
        run = _check if payload["check"] else _time
        return run(artifact, inputs)
    except (TilelangAscendError, RuntimeError, ValueError, TypeError) as error:
        return {"outcome": failure(error).to_json()}
    finally:
        cache.clear_memory()  # hundreds of configurations may pass through this process


def _compile(payload: Mapping[str, Any]) -> Artifact:
    func = load_ir(payload["tile_ir"])
    return build_artifact(func, payload["out_idx"], payload["chip"], payload["options"])


def _time(artifact: Artifact, inputs: list[Any]) -> dict[str, Any]:
    launch = bind(artifact.signature, artifact.name, inputs)
    report = simulate(artifact, launch, values=False, checks=False)
    return {"outcome": _judge(report, checked=False).to_json()}


def _check(artifact: Artifact, inputs: list[Any]) -> dict[str, Any]:
    launch = bind(artifact.signature, artifact.name, inputs)
    report = simulate(artifact, launch, values=True, checks=True)
    launch.write_back()
    written = {p.name: launch.tensors[p.name] for p in artifact.signature.parameters if p.is_buffer and p.writes}
    return {
        "outcome": _judge(report, checked=True).to_json(),
        "outputs": {name: _pack(tensor) for name, tensor in written.items()},
    }


def _judge(report: SimulationReport, checked: bool) -> Outcome:
    if report.hazards or report.run.stuck:
        details = report.run.text() if report.hazards else f"{report.run.stuck} cannot finish"
        return Outcome(Status.WRONG, error=details.splitlines()[0], details=details)
    return Outcome(Status.OK, report.simulated_us / 1e3, report.bound_pipe, checked=checked)


def _pack(tensor: Any) -> tuple[str, tuple[int, ...], bytes]:
    host = tensors.HostTensor(tensor)
    return host.dtype, host.shape, host.tobytes()

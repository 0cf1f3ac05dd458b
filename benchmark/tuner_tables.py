"""Tables for benchmark/tuner.py: every configuration of a space, with its time on the machine model and on hidden machines.

A hidden machine stands for a board, of which there is none here: the same compiled program, simulated on a chip whose time constants are others
(`hidden_chip`). Everything else about the chip is the same, so the model's structure is right by construction.
"""

import hashlib
import json
import math
import multiprocessing
import os
import random
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType

from tqdm import tqdm
from tuner_spaces import KERNELS, Space

from tilelang_ascend import arch, cache
from tilelang_ascend.sim.report import CoreTime, RunResult

CHIP = "Ascend910B1"
SPREAD = (0.6, 1.6)
"""Between what factors a hidden machine's time constants lie."""
_TIME_CONSTANT = re.compile(r"(_cycles|_seconds|_per_second|_bytes_per_cycle|per_cycle_[a-z]+\d+)$")
"""Units in which the chip data state times and rates."""
_QUIET = {"TILELANG_DISABLE_CACHE": "1", "TILELANG_LOG_LEVEL": "error", "TILELANG_PRINT_ON_COMPILATION": "0", "TVM_NUM_THREADS": "1"}
_KEPT = ("cycles", "simulated_us", "launch_us", "bound_pipe", "occupancy", "assumed_share", "traffic", "clock_hz")


@dataclass(frozen=True)
class Program:
    """A compiled program, the configurations that compile to it, and its times.

    truth: simulated us by the seed of the hidden machine, without noise.
    """

    configs: tuple[dict, ...]
    run: RunResult
    truth: dict[int, float]


def hidden_chip(chip: arch.ChipSpec, seed: int) -> arch.ChipSpec:
    """`chip` with every rate, latency and interval multiplied by a factor of its own, log-uniform in `SPREAD`."""
    rng = random.Random(seed)
    low, high = map(math.log, SPREAD)
    times = sorted(key for key in chip.quantities if _TIME_CONSTANT.search(key))
    changed = {key: replace(chip.quantities[key], value=chip.quantities[key].value * math.exp(rng.uniform(low, high))) for key in times}
    return replace(chip, quantities=MappingProxyType({**chip.quantities, **changed}))


def table(space: Space, seeds: list[int], file: Path, workers: int) -> list[Program]:
    """The different programs of a space; what `file` does not have yet is compiled and simulated, and appended to it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    wanted = {_key(space, config): config for config in space.configs}
    known = _read(file, wanted, seeds)
    jobs = [(space.name, space.problem, config, seeds, key) for key, config in wanted.items() if key not in known]
    random.Random(0).shuffle(jobs)
    if jobs:
        with multiprocessing.get_context("spawn").Pool(workers, _begin) as pool, file.open("a") as out:
            for record in tqdm(pool.imap_unordered(_measure, jobs), total=len(jobs), desc=space.name, disable=None):
                out.write(json.dumps(record) + "\n")
                out.flush()
                known[record["key"]] = record
    return _programs([known[key] for key in wanted])


def _key(space: Space, config: dict) -> str:
    return json.dumps([space.name, space.problem, config])


def _read(file: Path, wanted: dict, seeds: list[int]) -> dict[str, dict]:
    known = {}
    for line in file.open() if file.exists() else ():
        record = json.loads(line)
        if record["key"] in wanted and ("error" in record or {str(s) for s in seeds} <= set(record["truth"])):
            known[record["key"]] = record
    return known


def _programs(records: list[dict]) -> list[Program]:
    same: dict[str, list[dict]] = {}
    for record in records:
        if "error" not in record:
            same.setdefault(record["source"], []).append(record)
    return [
        Program(tuple(r["config"] for r in rows), _result(rows[0]["run"]), {int(s): us for s, us in rows[0]["truth"].items()})
        for rows in same.values()
    ]


def _result(run: dict) -> RunResult:
    return RunResult(hazards=(), **{**run, "per_core": tuple(CoreTime(**core) for core in run["per_core"])})


def _begin() -> None:
    """Of a worker: it leaves the machine to others, and nothing in the cache of kernels."""
    os.nice(2)
    os.environ.update(_QUIET)


def _measure(job: tuple) -> dict:
    """What the cache keeps of one configuration."""
    from tilelang_ascend.errors import TilelangAscendError

    name, problem, config, seeds, key = job
    try:
        return {"key": key, "config": config, **_simulate(name, problem, config, seeds)}
    except TilelangAscendError as error:
        return {"key": key, "config": config, "error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    finally:
        cache.clear_memory()


def _simulate(name: str, problem: tuple, config: dict, seeds: list[int]) -> dict:
    from tilelang_ascend.frontend import trace
    from tilelang_ascend.jit.build import build_artifact
    from tilelang_ascend.profiler.supply import TensorSupplyType, make_inputs
    from tilelang_ascend.runtime.arguments import bind

    func = trace(KERNELS[name], problem, config)
    artifact = build_artifact(func, (len(func.params) - 1,) if name != "gemm" else (), CHIP, {})
    launch = bind(artifact.signature, artifact.name, make_inputs(artifact.signature, TensorSupplyType.Zero))
    chip = arch.get_chip(CHIP)
    run = _time(artifact, launch, chip)
    kept = {field: getattr(run, field) for field in _KEPT}
    return {
        "source": hashlib.sha256(artifact.kernel_source.encode()).hexdigest(),
        "run": {**kept, "per_core": [asdict(core) for core in run.per_core]},
        "truth": {seed: _time(artifact, launch, hidden_chip(chip, seed)).simulated_us for seed in seeds},
    }


def _time(artifact, launch, chip: arch.ChipSpec) -> RunResult:
    from tilelang_ascend.runtime import simulation
    from tilelang_ascend.sim import machine

    memory = simulation._Memory(launch)
    runs = [
        machine.Launch(step.kernel_type, step.block_dim, program.entries, [memory.word(slot, step.block_dim) for slot in step.abi])
        for step, program in zip(artifact.steps, simulation.programs_of(artifact))
    ]
    return machine.run_in_order(chip, runs, memory.tensors, machine.SimOptions.time_only())

"""How many measurements the tuner's search needs, on hidden machines. There is no board here, and nothing in the tables is a time of one.

The truth is a *hidden machine*: the same compiled programs, simulated on a chip each of whose rates, latencies and intervals is multiplied by a
factor of its own between 0.6 and 1.6. A measurement is that simulated time with 2 % of noise. Such a machine has the structure of the model that
ranks, so the model alone does well on it. Boards will differ in ways the model does not know; `--unknown 0.1` stands for that: each value of each
parameter multiplies the time by a factor of its own (log-normal with that deviation), which no model and no feature sees.

Printed is by how many per cent the program with the least *measured* time is slower than the best of the whole space (both without noise), after 2 %,
5 % and 10 % of the different compiled programs have been measured; mean and largest over machines and noise. Seeds 0 to 2 served to choose the
algorithm; the default, 3 to 7, did not, with one exception: that history counts only once there are measurements of one's own was decided after
tables of them had shown the harm it did under `--unknown`.

    python benchmark/tuner.py --size small --cache /tmp/small      # minutes
    python benchmark/tuner.py --cache /tmp/full                    # the first run compiles 1848 configurations; later ones read them
"""

import argparse
import math
import random
import sys
from pathlib import Path
from typing import Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tuner_spaces
from tuner_tables import CHIP, SPREAD, Program, table

from tilelang_ascend.autotune import search
from tilelang_ascend.autotune.features import features_of

SHARES = (0.02, 0.05, 0.10)
NOISE = 0.02
BATCH = 4
"""Programs measured between two looks at the results."""
REPEATS = 3
"""Runs on each machine, with other noise."""
POPULATION, TOURNAMENT, MUTATION = 8, 3, 0.3
"""Of the evolutionary search."""

Measure = Callable[[int], float]


class Table:
    """A space on one hidden machine."""

    def __init__(self, space: tuner_spaces.Space, programs: Sequence[Program], seed: int, unknown: float):
        self.space, self.programs = space, programs
        self.points = [search.Point(p.run.simulated_us / 1e3, features_of(p.run)) for p in programs]
        rng = random.Random(f"{space.name} {seed}")
        effects = {(name, value): rng.gauss(0, unknown) for name, values in space.choices.items() for value in values}
        self.truth = [p.truth[seed] / 1e3 * math.exp(sum(effects[item] for item in p.configs[0].items())) for p in programs]

    @property
    def largest_budget(self) -> int:
        return math.ceil(SHARES[-1] * len(self.points))

    def measured(self, seed: int) -> Measure:
        """Times with noise; the same noise for everybody who measures a program."""
        rng = random.Random(seed)
        values = [ms * (1 + rng.gauss(0, NOISE)) for ms in self.truth]
        return values.__getitem__


def by_model(history: Sequence = (), correct: bool = True):
    """Our search; without `correct` by the model's ranking alone."""

    def run(t: Table, measure: Measure, rng: random.Random) -> list[int]:
        if not correct:
            return sorted(range(len(t.points)), key=lambda i: t.points[i].predicted)[: t.largest_budget]
        searcher, order = search.ModelSearch(t.points, history), []
        while len(order) < t.largest_budget:
            for i in searcher.propose(min(BATCH, t.largest_budget - len(order))):
                searcher.observe(i, measure(i))
                order.append(i)
        return order

    return run


def at_random(t: Table, measure: Measure, rng: random.Random) -> list[int]:
    """Random search."""
    return rng.sample(range(len(t.points)), t.largest_budget)


def by_evolution(t: Table, measure: Measure, rng: random.Random) -> list[int]:
    """Evolution over the parameters, without any model; a configuration whose program is measured already costs nothing."""
    program = {tuple(config.values()): i for i, p in enumerate(t.programs) for config in p.configs}
    values = list(t.space.choices.values())
    genes, order, seen = sorted(program, key=str), [], {}

    def fitness(gene: tuple) -> float:
        i = program[gene]
        if i not in seen:
            seen[i] = measure(i)
            order.append(i)
        return seen[i]

    population = [(fitness(g), g) for g in rng.sample(genes, min(POPULATION, len(genes)))]
    for _ in range(100 * t.largest_budget):
        if len(order) >= t.largest_budget:
            break
        parents = [min(rng.sample(population, min(TOURNAMENT, len(population))))[1] for _ in range(2)]
        child = tuple(rng.choice(values[k]) if rng.random() < MUTATION else pair[rng.randrange(2)] for k, pair in enumerate(zip(*parents)))
        if child in program:
            population = sorted({*population, (fitness(child), child)})[:POPULATION]
    return order[: t.largest_budget]


def regrets(t: Table, order: Sequence[int], measure: Measure) -> list[float]:
    """Per cent above the exhaustive best after each of `SHARES`."""
    found = []
    for share in SHARES:
        best = min(order[: math.ceil(share * len(t.points))], key=measure)
        found.append(100 * (t.truth[best] / min(t.truth) - 1))
    return found


def history_of(others: Sequence[Table], seed: int) -> list:
    """What tunings of the other kernels on the same machine have measured: the model's first tenth of each."""
    pairs = []
    for t in others:
        measure = t.measured(seed)
        pairs += [(t.points[i], measure(i)) for i in by_model(correct=False)(t, measure, random.Random(0))]
    return pairs


def compare(spaces: dict, seeds: Sequence[int], unknown: float) -> None:
    """Print the tables of all spaces."""
    tables = {name: {seed: Table(space, programs, seed, unknown) for seed in seeds} for name, (space, programs) in spaces.items()}
    for name, by_seed in tables.items():
        space, programs = spaces[name]
        print(
            f"\n{name} {space.problem}: {len(space.configs)} configurations, {len(programs)} different programs, {len(seeds)} hidden machines"
        )
        print(f"{'':24}{'mean % above the best at':^30}{'largest at':^30}{'within 5 %':>14}")
        print(f"{'':24}" + "".join(f"{share:>10.0%}" for share in SHARES * 2) + f"{'at 10%':>14}")
        rows: dict[str, list] = {}
        for seed, t in by_seed.items():
            others = [tables[other][seed] for other in tables if other != name]
            for repeat in range(REPEATS):
                noise = 1000 * seed + repeat
                measure = t.measured(noise)
                ways = {
                    "ours, model alone": by_model(correct=False),
                    "ours, corrected": by_model(),
                    "ours, with history": by_model(history_of(others, noise + 1)),
                    "random": at_random,
                    "evolution": by_evolution,
                }
                for way, run in ways.items():
                    rows.setdefault(way, []).append(regrets(t, run(t, measure, random.Random(noise)), measure))
        for way, found in rows.items():
            columns = list(zip(*found))
            cells = [f"{sum(c) / len(c):10.1f}" for c in columns] + [f"{max(c):10.1f}" for c in columns]
            good = sum(r[-1] <= 5 for r in found)
            print(f"{way:24}" + "".join(cells) + f"{f'{good} of {len(found)}':>14}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument(
        "--cache", type=Path, default=Path("out/tuner"), help="folder for simulated times, one file for each space and size"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5, 6, 7], help="hidden machines")
    parser.add_argument("--unknown", type=float, default=0.0, help="deviation of what the model does not know, for each parameter")
    parser.add_argument("--spaces", nargs="+", choices=tuple(tuner_spaces.SPACES), default=list(tuner_spaces.SPACES))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    spaces = {}
    for name in args.spaces:
        space = tuner_spaces.space(name, args.size)
        spaces[name] = (space, table(space, args.seeds, args.cache / f"{name}-{args.size}.jsonl", args.workers))
    print(
        f"Hidden machines are simulated chips, not boards: {CHIP} with every time constant times a factor in {SPREAD}, {NOISE:.0%} of noise."
    )
    if args.unknown:
        print(
            f"Beyond that, every value of every parameter multiplies times by exp(N(0, {args.unknown:g})), which the model does not know."
        )
    if search._xgboost() is None:
        print("xgboost is not installed (extra `tune`): nothing is corrected.")
    compare(spaces, args.seeds, args.unknown)


if __name__ == "__main__":
    main()

"""Kernels whose control flow and places are data: search trees, beams, samples of an image between its pixels."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

RNG = np.random.default_rng(31)


def agree(func, arrays: dict, scalars: dict, target: str, **expected):
    """The compiled kernel and plain Python both give `expected`, name -> (array, tolerance)."""
    own = {n: a.copy() for n, a in arrays.items()}
    interpret.run(func, *[own[p.name] if p.name in own else scalars[p.name] for p in func.params])
    out = strict.run(tilelang.compile(func, target=target), arrays, scalars, text=False)
    for name, (value, tolerance) in expected.items():
        for result in (out, own):
            np.testing.assert_allclose(result[name].astype(float), value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("target, rows, depth", [("a2", 5, 3), ("a5", 1, 0)])
def test_decision_trees(target, rows, depth):
    """A `while` that follows the children of a node, a default side for what is missing (NaN), leaves at different depths."""
    trees, features, nodes, block = 2, 5, 2 ** (depth + 1) - 1, 4
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, features), "float32"), Feature: T.Tensor((trees, nodes), "int16"), Value: T.Tensor((trees, nodes), "float32"),
        Left: T.Tensor((trees, nodes), "int32"), Missing: T.Tensor((trees, nodes), "bool"), Y: T.Tensor((M,), "float32"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(M, block), threads=32) as bx:
            x, y = T.alloc_shared((block, features), "float32"), T.alloc_shared((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.clear(y)
            for i in T.serial(T.min(block, M - bx * block)):
                for t in T.serial(trees):
                    node = T.alloc_var("int32", 0)
                    while Left[t, node] >= 0:
                        v = x[i, Feature[t, node]]
                        left = T.if_then_else(T.isnan(v), Missing[t, node], v < Value[t, node])
                        node = Left[t, node] + T.if_then_else(left, 0, 1)
                    y[i] += Value[t, node]
            for i in T.Parallel(block):
                if bx * block + i < M:
                    Y[bx * block + i] = T.sigmoid(y[i])

    x = RNG.standard_normal((rows, features)).astype(np.float32)
    x[RNG.random(x.shape) < 0.3] = np.nan
    feature = RNG.integers(0, features, (trees, nodes)).astype(np.int16)
    value = RNG.standard_normal((trees, nodes)).astype(np.float32)
    left = np.broadcast_to(np.where(np.arange(nodes) < nodes // 2, 2 * np.arange(nodes) + 1, -1), (trees, nodes)).astype(np.int32)
    left[0, min(1, nodes - 1)] = -1
    missing = RNG.random((trees, nodes)) < 0.5
    total = np.zeros(rows)
    for i in range(rows):
        for t in range(trees):
            k = 0
            while left[t, k] >= 0:
                v = x[i, feature[t, k]]
                k = left[t, k] + (0 if (missing[t, k] if np.isnan(v) else v < value[t, k]) else 1)
            total[i] += value[t, k]
    arrays = {"X": x, "Feature": feature, "Value": value, "Left": left, "Missing": missing, "Y": np.zeros(rows, np.float32)}
    agree(main, arrays, {"M": rows}, target, Y=(1 / (1 + np.exp(-total)), 1e-5))


@pytest.mark.parametrize("target, height, width, points", [("a2", 5, 7, 11), ("a5", 1, 1, 1)])
def test_samples_between_pixels(target, height, width, points):
    """The four pixels around a place are found by `T.floor`; those outside of the image count as 0."""
    C = 6
    H, W, P = T.dynamic("H"), T.dynamic("W"), T.dynamic("P")

    @T.prim_func
    def main(X: T.Tensor((H, W, C), "float16"), G: T.Tensor((P, 2), "float32"), Y: T.Tensor((P, C), "float32")):
        with T.Kernel(T.ceildiv(P, 4), threads=32) as bx:
            for i, c in T.Parallel(4, C):
                p = bx * 4 + i
                if p < P:
                    x0, y0 = T.cast(T.floor(G[p, 0]), "int32"), T.cast(T.floor(G[p, 1]), "int32")
                    total = T.alloc_var("float32", 0.0)
                    for dy in T.unroll(2):
                        for dx in T.unroll(2):
                            x, y = x0 + dx, y0 + dy
                            if x >= 0 and x < W and y >= 0 and y < H:
                                weight = (1.0 - T.abs(G[p, 0] - x)) * (1.0 - T.abs(G[p, 1] - y))
                                total += weight * T.cast(X[y, x, c], "float32")
                    Y[p, c] = total

    image = RNG.standard_normal((height, width, C)).astype(np.float16)
    at = (RNG.random((points, 2)) * [width + 2, height + 2] - 1.5).astype(np.float32)
    want = np.zeros((points, C))
    for p, (x, y) in enumerate(at.astype(float)):
        for j in range(height):
            for i in range(width):
                want[p] += max(0, 1 - abs(x - i)) * max(0, 1 - abs(y - j)) * image[j, i].astype(float)
    arrays = {"X": image, "G": at, "Y": np.full((points, C), 9, np.float32)}
    agree(main, arrays, {"H": height, "W": width, "P": points}, target, Y=(want, 1e-5))


@pytest.mark.parametrize("target, beams, words", [("a2", 3, 21), ("a5", 1, 1)])
def test_a_step_of_beam_search(target, beams, words):
    """A tile seen as one row, the best of which is found and then struck out, several times; beams that have ended only keep their score."""
    n = beams * words

    @T.prim_func
    def main(
        P: T.Tensor((beams, words), "float16"), Score: T.Tensor((beams,), "float32"), Ended: T.Tensor((beams,), "bool"),
        Best: T.Tensor((beams,), "float32"), Word: T.Tensor((beams,), "int32"), From: T.Tensor((beams,), "int32"),
        End: T.Tensor((beams,), "bool"), stop: T.int32,
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            s, p = T.alloc_fragment((beams, words), "float32"), T.alloc_shared((beams, words), "float16")
            score, ended = T.alloc_shared((beams,), "float32"), T.alloc_shared((beams,), "bool")
            most, place, at = T.alloc_fragment((1,), "float32"), T.alloc_fragment((n,), "int32"), T.alloc_fragment((1,), "int32")
            T.copy(P, p)
            T.copy(Score, score)
            T.copy(Ended, ended)
            for k, v in T.Parallel(beams, words):
                kept = T.if_then_else(v == stop, score[k], -T.infinity("float32"))
                s[k, v] = T.if_then_else(ended[k], kept, score[k] + T.cast(p[k, v], "float32"))
            row = T.reshape(s, (n,))
            for k in T.serial(beams):
                T.reduce_max(row, most, dim=0)
                for i in T.Parallel(n):
                    place[i] = T.if_then_else(row[i] == most[0], i, n)
                T.reduce_min(place, at, dim=0)
                Best[k] = most[0]
                From[k] = at[0] // words
                Word[k] = at[0] % words
                End[k] = ended[at[0] // words] or at[0] % words == stop
                row[at[0]] = -T.infinity("float32")

    p, score = -abs(RNG.standard_normal((beams, words))).astype(np.float16), -RNG.random(beams).astype(np.float32)
    ended, stop = np.arange(beams) == 1, words // 2
    every = score[:, None] + p.astype(np.float32)
    every[ended] = np.where(np.arange(words) == stop, score[ended, None], -np.inf)
    best = np.argsort(-every.reshape(-1), kind="stable")[:beams]
    start, word = np.divmod(best, words)
    zeros = [np.zeros(beams, dtype) for dtype in (np.float32, np.int32, np.int32, bool)]
    arrays = {"P": p, "Score": score, "Ended": ended, **dict(zip(("Best", "Word", "From", "End"), zeros))}
    want = {"Best": every.reshape(-1)[best], "Word": word, "From": start, "End": ended[start] | (word == stop)}
    agree(main, arrays, {"stop": stop}, target, **{name: (value, 0) for name, value in want.items()})

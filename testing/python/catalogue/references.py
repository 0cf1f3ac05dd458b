"""What the kernels of the catalogue compute, in NumPy: float32 or float64 inside, one rounding to the result's dtype at the end."""

import math

import ml_dtypes
import numpy as np

bfloat16 = ml_dtypes.bfloat16
_erf = np.vectorize(math.erf, otypes=[np.float64])


def numpy_dtype(name):
    """NumPy dtype of a dtype name, bfloat16 included."""
    return np.dtype(bfloat16 if str(name) == "bfloat16" else name)


def wide(x):
    """`x` in float64."""
    return np.asarray(x).astype(np.float64)


def gelu_erf(x):
    x = wide(x)
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def gelu_tanh(x):
    x = wide(x)
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def leaky_relu(x, slope=0.01):
    x = wide(x)
    return np.where(x >= 0, x, slope * x)


def silu(x):
    x = wide(x)
    return x / (1 + np.exp(-x))


def softmax(x):
    x = wide(x)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms_norm(x, gain, eps=1e-5):
    x = wide(x)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * wide(gain)


def layer_norm(x, gain, bias, eps=1e-5):
    x = wide(x)
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * wide(gain) + wide(bias)


def batch_norm(x, eps=1e-5):
    """(normalised x, mean, 1 / standard deviation) of x[n, channel, l], per channel."""
    x = wide(x)
    mean = x.mean((0, 2))
    inv = 1 / np.sqrt((x * x).mean((0, 2)) - mean**2 + eps)
    return (x - mean[:, None]) * inv[:, None], mean, inv


def adam(w, m, v, g, lr, b1, b2, eps, step):
    """(w, m, v) after one step with bias correction folded into the rate."""
    w, m, v, g = (wide(a) for a in (w, m, v, g))
    m = m + (g - m) * (1 - b1)
    v = v + (g * g - v) * (1 - b2)
    rate = lr * math.sqrt(1 - b2**step) / (1 - b1**step)
    return w - rate * m / (np.sqrt(v) + eps), m, v


def dynamic_quant(x):
    """(int8 rows, the float16 scale that multiplies them back)."""
    x = x.astype(np.float32)
    largest = np.abs(x).max(-1, keepdims=True)
    return np.rint(x * (np.float32(127) / largest)).astype(np.int8), (largest / 127)[:, 0].astype(np.float16)


def rope(x, cos, sin):
    """x[t, n, d] rotated by halves with cos, sin [t, d]."""
    x, cos, sin = wide(x), wide(cos)[:, None], wide(sin)[:, None]
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin


def convert(x, dtype):
    """`x` as `dtype` the way the language says: towards zero to integers, modulo between integers, nearest even to floats."""
    dtype = numpy_dtype(dtype)
    if dtype.kind in "iu" and x.dtype.kind not in "iub":
        return np.trunc(wide(x)).astype(np.int64).astype(dtype)
    return x.astype(dtype)


def top_k(x, k):
    """(values, indices) of the k largest of each row, descending, the smaller index first among equals."""
    order = np.argsort(-wide(x), -1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)

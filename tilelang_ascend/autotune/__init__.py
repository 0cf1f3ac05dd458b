"""The tuner: try every configuration of a kernel, keep the fastest one that is correct.

=============================================  ==========================================================
`autotune(configs=…)`                          decorator on top of `@tilelang.jit`
`AutoTuner.from_kernel(kernel, configs)`       the same as an object: ``.set_compile_args().run()``
`set_autotune_inputs(a, b)`                    the tensors to tune with
=============================================  ==========================================================

How it works: the space is what the user gives or what suits the kernel and the chip (`space`, `derive`); every
configuration is traced in this process (`program`); worker processes (`pool`, `worker`, `measure`) compile it and ask the
machine model for its *simulated* time (`jobs`), so that a crash or a hang costs one configuration. Where kernels run on
a board or over RPC (`places`), the most promising ones (`search`) are then measured there. `records` remembers every
measurement; `session` leads through it and checks the winner (`verify`, with functions of the user called by `calls`);
`report` shows all of them.

Importing this package loads neither tvm nor numpy.
"""

from .decorator import AutoTuneImpl, autotune
from .given import get_autotune_inputs, set_autotune_inputs
from .settings import AutotuneResult
from .tuner import AutoTuner

__all__ = [
    "AutoTuneImpl", "AutoTuner", "AutotuneResult", "autotune", "get_autotune_inputs", "set_autotune_inputs",
]  # fmt: skip

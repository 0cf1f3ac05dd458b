"""Running compiled kernels: arguments, tensors, artifacts, executors, simulation."""

"""`tilelang.contrib`: what scripts ask about the CUDA toolkit."""

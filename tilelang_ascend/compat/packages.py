"""What to tell a user who misses a library."""

from __future__ import annotations

PLAIN: dict[str, str] = {
    name: name
    for name in (
        "accelerate datasets einops jaxtyping loguru matplotlib ml_dtypes networkx numba numpy packaging pandas "
        "prettytable psutil pydantic pytest requests rich safetensors scipy seaborn sentencepiece sympy tabulate "
        "termcolor tiktoken timm torch torchaudio torchvision tqdm transformers typing_extensions xgboost zstandard"
    ).split()
} | {
    "PIL": "pillow",
    "attr": "attrs",
    "cv2": "opencv-python-headless",
    "huggingface_hub": "huggingface-hub",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "typing_extensions": "typing-extensions",
    "yaml": "pyyaml",
}
"""Import name -> name for pip, of packages that run anywhere."""

GPU_ONLY: frozenset[str] = frozenset(
    "aiter apex bitsandbytes causal_conv1d cublas cuda cupti cupy cutlass deep_ep deep_gemm fast_hadamard_transform "
    "fbgemm_gpu fla flash_attn flash_attn_2_cuda flash_attn_interface flash_linear_attention flash_mla flashinfer "
    "grouped_gemm humming lightllm mamba_ssm marlin native_sparse_attention pycuda pynvml quack sageattention "
    "sgl_kernel sglang tensorrt_llm torchao transformer_engine triton vllm xformers".split()
)
"""Import names of libraries that compute on a GPU, so installing them would not help."""


def advice(package: str) -> str:
    """The last clause of "… uses X, but X is not installed; <clause>"."""
    if package in PLAIN:
        return f"install it with: pip install {PLAIN[package]}"
    if package in GPU_ONLY:
        return "it computes on a GPU, so leave out what compares with it"
    return "install the package that provides it, or put the module next to the script"

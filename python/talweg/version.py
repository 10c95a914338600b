"""Which version this is, under PyTorch's names."""

from ._native import __version__

cuda: str | None = "13.0"  # the interface that GPUs are addressed with; nothing of CUDA is needed to build or install
hip: str | None = None
git_version: str | None = None
debug: bool = False

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]

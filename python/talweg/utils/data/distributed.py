"""``DistributedSampler`` under PyTorch's module name."""

from .sampler import DistributedSampler

__all__ = ["DistributedSampler"]

"""Helpers for training: data, values that are computed again."""

from . import checkpoint, data, dlpack

__all__ = ["checkpoint", "data", "dlpack"]

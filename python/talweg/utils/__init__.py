"""Helpers for training: data, values that are computed again."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]

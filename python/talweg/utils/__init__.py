"""Helpers for training: data."""

from . import data, dlpack

__all__ = ["data", "dlpack"]

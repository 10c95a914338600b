"""Helpers for training: data."""

from . import data

__all__ = ["data"]

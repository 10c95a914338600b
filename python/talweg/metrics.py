"""Figures over many batches."""

from ._native import Accuracy, Auc, Confusion, Perplexity, TopK

__all__ = ["Accuracy", "Auc", "Confusion", "Perplexity", "TopK"]

"""Smaller and faster models: quantization, pruning and distillation, with a report of what each layer gained.

`tw.compress` is the entry; the parts are here. See docs/compression.md.
"""

from .calibrate import Observer, threshold
from .distill import distillation_loss
from .equalize import equalize
from .fold import fold_batch_norms
from .gguf import save_gguf
from .layers import BlockLinear, Fp8Linear, Int8Embedding, StaticConv, StaticLinear
from .prune import Masks, prune_blocks, prune_channels, prune_heads, prune_layers, prune_magnitude
from .qat import fake_quantize, finish_qat, prepare_qat
from .quantize import Compressed, compare, compress
from .report import Layer, Report

__all__ = [
    "BlockLinear", "Compressed", "Fp8Linear", "Int8Embedding", "Layer", "Masks", "Observer", "Report", "StaticConv", "StaticLinear",
    "compare", "compress", "distillation_loss", "equalize", "fake_quantize", "finish_qat", "fold_batch_norms", "prepare_qat",
    "prune_blocks", "prune_channels", "prune_heads", "prune_layers", "prune_magnitude", "save_gguf", "threshold",
]  # fmt: skip

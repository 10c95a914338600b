"""Blocks of every GGUF format with the bits that PyPI's `gguf` dequantizes them to: `llm_blocks.py > crates/llm/tests/blocks.txt`.

Bytes are random (a seed makes them the same everywhere), so that every bit of a block counts; blocks whose scales are no
numbers are drawn again. `cargo test -p talweg-llm --test gguf` compares.
"""

import importlib.metadata

import gguf
import numpy as np

FORMATS = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K F16 BF16".split()
BLOCKS = 4


def fnv(data: bytes) -> int:
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 % (1 << 64)
    return h


def main() -> None:
    random = np.random.default_rng(1)
    version = importlib.metadata.version("gguf")
    print(f"# format, bytes, FNV-1a of the dequantized f32 (gguf {version}), first three and last weight")
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        weights, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = []
        while len(blocks) < (BLOCKS if weights > 1 else 32):
            block = random.integers(0, 256, size, np.uint8)
            data = block.view(np.float16) if name == "F16" else block
            with np.errstate(invalid="ignore", over="ignore"):
                if np.isfinite(gguf.quants.dequantize(data[None], kind)).all():
                    blocks.append(block)
        block = np.concatenate(blocks)
        data = block.view(np.float16) if name == "F16" else block
        x = gguf.quants.dequantize(data[None], kind).astype(np.float32).ravel()
        ends = " ".join(repr(float(v)) for v in (x[0], x[1], x[2], x[-1]))
        print(name, block.tobytes().hex(), f"{fnv(x.tobytes()):016x}", ends)


main()

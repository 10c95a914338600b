"""Writes the ONNX files that `scripts/bench_onnx.py` compares, in f32 and int8.

    python scripts/onnx_nets.py DIR

ResNet-18, ResNet-50 and MobileNet v2 (224 × 224 images) and a BERT of MiniLM's sizes (6 layers of 384, 128 tokens) have
random weights; batch norms have random statistics. `ocr.onnx` and `vad.onnx` are those of rapidocr-onnxruntime and
silero-vad, with sizes fixed at 48 × 320 and 576 samples; a package that is missing is left out and named. The int8 files
are written by ONNX Runtime's quantizer: QDQ with a scale for each channel for images, dynamic for the others. Needs
`torch`, `torchvision`, `transformers`, `onnx`, `onnxscript` and `onnxruntime`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import onnx
import onnx.version_converter
import torch
import torchvision
from bench_onnx import quantized
from onnxruntime.quantization import quantize_dynamic
from torch import nn

IMAGES = ("resnet18", "resnet50", "mobilenet_v2")
# Package, file in it, sizes of each input.
PACKAGED = {
    "ocr": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    "vad": ("silero_vad", "data/silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128)}),
}


def image_net(name: str) -> nn.Module:
    net = getattr(torchvision.models, name)()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return net


class MiniLm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
        self.model = BertModel(config)

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state


def export(net: nn.Module, path: Path, inputs: dict[str, torch.Tensor]) -> None:
    names, values = list(inputs), tuple(inputs.values())
    torch.onnx.export(net.eval(), values, path, input_names=names, dynamo=True, external_data=False, opset_version=18, verbose=False)


def fixed(package: str, file: str, sizes: dict[str, tuple[int, ...]], path: Path) -> bool:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return False
    model = onnx.load(Path(found.submodule_search_locations[0]) / file)
    for value in model.graph.input:
        for dim, n in zip(value.type.tensor_type.shape.dim, sizes.get(value.name, ())):
            dim.dim_value = n
    # Scales for each channel need opset 13.
    if next(o.version for o in model.opset_import if not o.domain) < 13:
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, path)
    return True


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name in IMAGES:
        path = folder / f"{name}.onnx"
        export(image_net(name), path, {"x": torch.randn(1, 3, 224, 224)})
        quantized(str(path), str(folder), {})
    ones = torch.ones(1, 128, dtype=torch.long)
    export(MiniLm(), folder / "minilm.onnx", dict(input_ids=ones, attention_mask=ones, token_type_ids=torch.zeros_like(ones)))
    quantize_dynamic(folder / "minilm.onnx", folder / "minilm.int8.onnx")
    for name, (package, file, sizes) in PACKAGED.items():
        if not fixed(package, file, sizes, folder / f"{name}.onnx"):
            print(f"left out: {name} (no package {package})")
        elif name == "ocr":
            quantized(str(folder / "ocr.onnx"), str(folder), {})
        else:
            quantize_dynamic(folder / f"{name}.onnx", folder / f"{name}.int8.onnx")


if __name__ == "__main__":
    main()

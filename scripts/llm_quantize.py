"""A GGUF file with its matrices in another format, quantized by ggml: `llm_quantize.py FROM.gguf TO.gguf q5_0`.

Needs gguf and xllamacpp. Matrices whose rows are no whole blocks keep q8_0; norms stay f32. With f32, f16 or bf16 the
matrices become floats.
"""

import sys

import gguf
import numpy as np
from llamacpp import quantize


def main() -> None:
    source, target, name = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    kind = gguf.GGMLQuantizationType[name.upper()]
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        of = field.types[0]
        writer.add_key_value(field.name, field.contents(), of, field.types[-1] if of == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        weights = gguf.quants.dequantize(t.data, t.tensor_type)
        if weights.ndim < 2:
            writer.add_tensor(t.name, weights.astype(np.float32))
            continue
        block, _ = gguf.GGML_QUANT_SIZES[kind]
        own = kind if weights.shape[-1] % block == 0 else gguf.GGMLQuantizationType.Q8_0
        if own == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(t.name, weights.astype(np.float32))
        elif own == gguf.GGMLQuantizationType.F16:
            writer.add_tensor(t.name, weights.astype(np.float16))
        elif own == gguf.GGMLQuantizationType.BF16:
            writer.add_tensor(t.name, gguf.quants.quantize(weights, own), raw_dtype=own)
        else:
            writer.add_tensor(t.name, quantize(int(own), weights), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()

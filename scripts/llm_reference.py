"""Logits of small random models by Hugging Face's transformers: crates/llm/tests/architectures.json, and frequencies.json.

Weights are a function of their names, which the test repeats, so that only shapes and logits are stored.
Needs torch and transformers: python scripts/llm_reference.py crates/llm/tests/architectures.json
"""

import json
import sys

import numpy as np
import torch
import transformers as tf

MASK = 2**64 - 1
TOKENS = [3, 14, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9]


def unit(name: str, n: int) -> np.ndarray:
    """n numbers between -1 and 1: FNV-1a of the name seeds xorshift."""
    state = 0xCBF29CE484222325
    for b in name.encode():
        state = ((state ^ b) * 0x100000001B3) & MASK
    state |= 1
    out = np.empty(n, np.float32)
    for i in range(n):
        state ^= (state << 13) & MASK
        state ^= state >> 7
        state ^= (state << 17) & MASK
        out[i] = np.float32(state >> 40) / np.float32(1 << 23) - np.float32(1)
    return out


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    x = unit(name, int(np.prod(shape))).reshape(shape)
    if len(shape) == 1:
        return (x * np.float32(0.1) + np.float32("norm" in name.lower() or "ln_" in name)).astype(np.float32)
    return (x * np.float32(2 / np.sqrt(shape[-1]))).astype(np.float32)


BASE = dict(vocab_size=32, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=24, max_position_embeddings=64, tie_word_embeddings=False)
MODELS = {
    "llama": tf.LlamaConfig(**BASE, rope_theta=10000.0),
    "llama3": tf.LlamaConfig(**BASE, rope_theta=500000.0, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}),
    "yarn": tf.Qwen2Config(**BASE, rope_theta=10000.0, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
    "yarn_mscale": tf.LlamaConfig(**BASE, rope_theta=50000.0, rope_scaling={
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8, "beta_fast": 4.0, "beta_slow": 0.5,
        "mscale": 1.2, "mscale_all_dim": 0.8, "truncate": False}),
    "mistral": tf.MistralConfig(**{**BASE, "sliding_window": 5}),
    "qwen2": tf.Qwen2Config(**BASE),
    "qwen3": tf.Qwen3Config(**BASE, head_dim=8),
    "mixtral": tf.MixtralConfig(**BASE, num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": tf.Qwen2MoeConfig(**BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
                                   shared_expert_intermediate_size=20, decoder_sparse_step=1),
    "qwen3_moe": tf.Qwen3MoeConfig(**BASE, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
                                   norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]),
    "gemma2": tf.Gemma2Config(**{**BASE, "tie_word_embeddings": True}, head_dim=8, sliding_window=5,
                              query_pre_attn_scalar=8),
    "gemma3": tf.Gemma3TextConfig(**{**BASE, "tie_word_embeddings": True, "num_hidden_layers": 7}, head_dim=8,
                                  sliding_window=5, query_pre_attn_scalar=8),
    "gpt2": tf.GPT2Config(vocab_size=32, n_embd=16, n_layer=3, n_head=4, n_positions=64),
    "phi": tf.PhiConfig(**{**BASE, "num_key_value_heads": 4}, partial_rotary_factor=0.5),
    "phi3": tf.Phi3Config(**BASE, pad_token_id=0),
    # The logits are those of a text longer than 8 tokens: the long factors.
    "phi3_longrope": tf.Phi3Config(**{**BASE, "hidden_size": 32}, pad_token_id=0, partial_rotary_factor=0.75,
                                   original_max_position_embeddings=8, rope_scaling={
        "rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.5, 2.5, 4.0]}),
    "roberta": tf.XLMRobertaConfig(**{**{k: v for k, v in BASE.items() if "key_value" not in k and "tie" not in k},
                                      "num_hidden_layers": 2}, type_vocab_size=1, num_labels=1, pad_token_id=0),
    "cross": tf.BertConfig(**{**{k: v for k, v in BASE.items() if "key_value" not in k and "tie" not in k},
                              "num_hidden_layers": 2}, num_labels=1),
    "bert": tf.BertConfig(**{k: v for k, v in BASE.items() if "key_value" not in k and "tie" not in k}),
}


# Experts by their names on disk: gate, up and down.
EXPERTS = {"mixtral": ("block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3", "block_sparse_moe.experts.{}.w2")}
OTHERS = ("mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj", "mlp.experts.{}.down_proj")


def experts(model: str, key: str, shape: tuple[int, ...], shapes: dict) -> torch.Tensor:
    """Experts in one tensor, of weights that are stored one by one."""
    layer, part = key.split("mlp.experts.")
    gate, up, down = EXPERTS.get(model, OTHERS)
    rows = []
    for e in range(shape[0]):
        names = [down] if part == "down_proj" else [gate, up]
        size = (shape[1] // len(names), shape[2])
        for n in names:
            stored = layer + n.format(e) + ".weight"
            shapes[stored] = list(size)
            rows.append(weight(stored, size))
    return torch.from_numpy(np.concatenate(rows).reshape(shape))


# Cross-encoders: pairs of texts, padded, with the length of the first and of both.
PAIRS = ("roberta", "cross")
LENGTHS = [(5, 12), (3, 7), (4, 9)]


def pairs(model: torch.nn.Module, config: tf.PretrainedConfig, shapes: dict) -> dict:
    """Scores of pairs before any activation."""
    pad = config.pad_token_id
    tokens = torch.tensor([[t if i < n else pad for i, t in enumerate(TOKENS)] for _, n in LENGTHS])
    mask = torch.tensor([[int(i < n) for i in range(len(TOKENS))] for _, n in LENGTHS])
    types = torch.tensor([[int(m <= i < n) for i in range(len(TOKENS))] for m, n in LENGTHS])
    types = types if config.type_vocab_size > 1 else torch.zeros_like(types)
    with torch.no_grad():
        y = model(tokens, attention_mask=mask, token_type_ids=types).logits[:, 0]
    print(config.model_type, y)
    return {"config": json.loads(config.to_json_string()), "tensors": shapes, "tokens": TOKENS, "lengths": LENGTHS,
            "scores": [round(float(x), 6) for x in y]}


def frequencies() -> dict:
    """Inverse frequencies and magnitudes of rope scalings by transformers' functions, at some lengths of a text."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    wide = dict(hidden_size=256, num_attention_heads=4, num_hidden_layers=1, vocab_size=32, intermediate_size=8)
    ramp = [1.0 + i / 8 for i in range(32)]
    configs = {
        "linear": (tf.LlamaConfig, dict(factor=4.0), 2048, 10000.0),
        "dynamic": (tf.LlamaConfig, dict(factor=2.0), 2048, 10000.0),
        "yarn": (tf.LlamaConfig, dict(factor=4.0, original_max_position_embeddings=32768), 131072, 1000000.0),
        "llama3": (tf.LlamaConfig, dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=8192), 131072, 500000.0),
        "longrope": (tf.Phi3Config, dict(short_factor=ramp, long_factor=[2 * x * x for x in ramp]), 131072, 10000.0),
    }
    out = {}
    for kind, (cls, scaling, length, theta) in configs.items():
        more = {"original_max_position_embeddings": 4096, "pad_token_id": 0} if cls is tf.Phi3Config else {}
        config = cls(**wide, **more, max_position_embeddings=length, rope_theta=theta,
                     rope_scaling={"rope_type": kind, **scaling})
        rows = []
        for n in (1024, length, 2 * length):
            f, magnitude = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=n)
            rows.append({"length": n, "magnitude": float(magnitude), "frequencies": [float(x) for x in f]})
        out[kind] = {"config": json.loads(config.to_json_string()), "rows": rows}
    return out


def main(path: str) -> None:
    with open(path.replace("architectures", "frequencies"), "w") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in frequencies().items()) + "\n}\n")
    out = {}
    for name, config in MODELS.items():
        if name == "bert":
            model = tf.BertModel(config, add_pooling_layer=False)
        elif name in PAIRS:
            model = tf.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
        else:
            model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model = model.float().eval()
        state = {k: v for k, v in model.state_dict().items() if v.is_floating_point()}
        shapes, values = {}, {}
        for key, old in state.items():
            if key == "lm_head.weight" and getattr(config, "tie_word_embeddings", True):
                continue
            if "mlp.experts." in key:
                values[key] = experts(name, key, tuple(old.shape), shapes)
                continue
            stored = key.replace("mlp.gate.", "block_sparse_moe.gate.") if name == "mixtral" else key
            values[key] = torch.from_numpy(weight(stored, tuple(old.shape)))
            shapes[stored] = list(old.shape)
        model.load_state_dict(values, strict=False)
        if hasattr(model, "tie_weights"):
            model.tie_weights()
        if name in PAIRS:
            out[name] = pairs(model, config, shapes)
            continue
        with torch.no_grad():
            y = model(torch.tensor([TOKENS]))
        y = y.last_hidden_state if name == "bert" else y.logits
        y = y[0].numpy()
        out[name] = {"config": json.loads(config.to_json_string()), "tensors": shapes, "tokens": TOKENS,
                     "logits": [[round(float(x), 5) for x in row] for row in y[[0, 5, -1]]]}
        print(name, y.shape, float(np.abs(y).max()))
    with open(path, "w") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items()) + "\n}\n")


main(sys.argv[1])

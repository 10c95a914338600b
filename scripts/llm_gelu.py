"""Why greedy tokens of Gemma 3 differ from llama.cpp's with float weights: ggml's GELU is a table of 16-bit floats.

    python scripts/llm_gelu.py GEMMA3_F32.gguf --talweg target/release/talweg
NumPy computes the log probabilities in 64 bits, once with the exact GELU and once with ggml's, whose argument and result are
rounded to 16 bits. At each choice where the engines differ, a row lists the margin between both tokens: Talweg's, NumPy's,
llama.cpp's, and the range of llama.cpp's over chunk sizes. A choice is explained if Talweg is within `--tolerance` of NumPy,
and llama.cpp not farther from it than its log probabilities at this text depend on the chunk size. Needs gguf and xllamacpp;
`llm_quantize.py` makes the file.
"""

import argparse
import json

import gguf
import numpy as np
from llamacpp import Llama
from llm_compare import PROMPTS, forced, log_softmax, talweg


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x * x)))


def gelu_of_table(x: np.ndarray) -> np.ndarray:
    return gelu(x.astype(np.float16).astype(np.float32)).astype(np.float16).astype(np.float64)


class Gemma3:
    """The model in 64 bits, without a KV cache."""

    def __init__(self, path: str) -> None:
        reader = gguf.GGUFReader(path)
        of = lambda name: reader.fields["gemma3." + name].contents()
        self.layers, self.heads, self.head = of("block_count"), of("attention.head_count"), of("attention.key_length")
        self.eps, self.window, self.base = of("attention.layer_norm_rms_epsilon"), of("attention.sliding_window"), of("rope.freq_base")
        self.weights = {t.name: t.data.astype(np.float64) for t in reader.tensors}

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[name + ".weight"].T

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weights[name + ".weight"]

    def rope(self, x: np.ndarray, base: float) -> np.ndarray:
        half = self.head // 2
        angles = np.arange(len(x))[:, None, None] * base ** (-np.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)

    def log_p(self, tokens: list[int], last: int, activation) -> np.ndarray:
        """Log probabilities after each of the last tokens."""
        n = len(tokens)
        assert n <= self.window, "all layers see all tokens"
        x = self.weights["token_embd.weight"][tokens]
        x = x * np.sqrt(x.shape[-1])
        mask = np.triu(np.full((n, n), -np.inf), 1)
        for i in range(self.layers):
            b = f"blk.{i}."
            base = self.base if i % 6 == 5 else 10000.0
            y = self.norm(x, b + "attn_norm")
            split = lambda name: self.linear(y, b + name).reshape(n, -1, self.head)
            q = self.rope(self.norm(split("attn_q"), b + "attn_q_norm"), base)
            k = self.rope(self.norm(split("attn_k"), b + "attn_k_norm"), base)
            groups = self.heads // k.shape[1]
            k, v = np.repeat(k, groups, 1), np.repeat(split("attn_v"), groups, 1)
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.head) + mask
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            y = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v).reshape(n, -1)
            x = x + self.norm(self.linear(y, b + "attn_output"), b + "post_attention_norm")
            y = self.norm(x, b + "ffn_norm")
            y = self.linear(activation(self.linear(y, b + "ffn_gate")) * self.linear(y, b + "ffn_up"), b + "ffn_down")
            x = x + self.norm(y, b + "post_ffw_norm")
        return log_softmax(self.linear(self.norm(x[-last:], "output_norm"), "token_embd"))


def chunked(llama: Llama, ids: list[int], chunk: int) -> np.ndarray:
    llama.clear()
    parts = [llama.decode(ids[i : i + chunk], everywhere=True) for i in range(0, len(ids), chunk)]
    return log_softmax(np.concatenate(parts))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--talweg", default="target/release/talweg", help="the command")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of a margin of Talweg, in nats")
    o = parser.parse_args()
    o.cache_type = "f32"
    llama = Llama(o.model, threads=o.threads, flash=0, cache="f32")
    rows = talweg(o, PROMPTS)
    theirs = forced(llama, PROMPTS, rows)
    model, bad, gaps = Gemma3(o.model), 0, {}
    print("| prompt | token | Talweg | llama.cpp | margin of Talweg | of NumPy | of llama.cpp | by chunk size |")
    print("|---|---:|---|---|---:|---:|---:|---:|")
    for prompt, row, log_p in zip(PROMPTS, rows, theirs):
        own, choice = np.array(row["tokens"]), log_p.argmax(-1)
        different = np.flatnonzero(choice != own)
        if len(different) == 0:
            continue
        n, places = len(own), np.arange(len(own))
        ids = llama.tokenize(prompt) + row["tokens"][:-1]
        exact, table = (model.log_p(ids, n, f) for f in (gelu, gelu_of_table))
        others = [log_p] + [chunked(llama, ids, c)[-n:] for c in (3, 8, len(ids))]
        own_gaps = lambda p: np.abs(p - exact)[places, own]
        spread = max(float(np.abs(p - log_p)[places, own].max()) for p in others)
        found = {"talweg": np.abs(np.array(row["logprobs"]) - exact[places, own]), "llama.cpp": own_gaps(log_p),
                 "table": own_gaps(table), "llama.cpp by chunk size": np.array([spread])}
        for name, gap in found.items():
            gaps[name] = max(gaps.get(name, 0.0), float(gap.max()))
        for i in different:
            a, b, ours = own[i], choice[i], dict(map(tuple, row["top_logprobs"][i]))
            margin = lambda p: float(p[i, a] - p[i, b])
            mine, true, ranges = ours[a] - ours[b], margin(exact), [margin(p) for p in others]
            text = lambda t: "`" + repr(llama.piece(int(t)))[1:-1].replace("|", "\\|") + "`"
            cells = [prompt.strip(), str(i), text(a), text(b), *(f"{x:+.5f}" for x in (mine, true, ranges[0]))]
            print("| " + " | ".join([*cells, f"{min(ranges):+.5f} to {max(ranges):+.5f}"]) + " |", flush=True)
            bad += not (abs(mine - true) <= o.tolerance and abs(ranges[0] - true) <= 2 * spread)
    print(json.dumps({"difference_from_numpy_max": gaps, "not_explained": bad}))
    if bad:
        raise SystemExit(f"{bad} choices are not explained")


main()

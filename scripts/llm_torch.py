"""Llama-shaped models with random bf16 weights in PyTorch, compiled: what `talweg bench-model llama-1b` is compared with.

    python scripts/llm_torch.py llama-1b --batch 1,64,256 --prompt 512 --prefill 8192
A static KV cache and `scaled_dot_product_attention`. The compiled step is captured as a CUDA graph by hand: Inductor's own
graphs refuse a cache that is updated in place. Also prints the rates of a copy and of a bf16 product, which bound both.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F

SIZES = {
    "llama-tiny": (64, 2, 4, 2, 16, 96, 512),
    "llama-1b": (2048, 16, 32, 8, 64, 8192, 128256),
    "llama-8b": (4096, 32, 32, 8, 128, 14336, 128256),
}


class Llama:
    def __init__(self, name: str, device: str, dtype: torch.dtype) -> None:
        self.hidden, self.layers, self.heads, self.kv, self.d, inner, vocabulary = SIZES[name]
        new = lambda *s: torch.empty(s, device=device, dtype=dtype).uniform_(-1, 1).mul_((3 / s[-1]) ** 0.5)
        width = (self.heads + 2 * self.kv) * self.d
        self.embedding = new(vocabulary, self.hidden)
        self.head = self.embedding if name == "llama-1b" else new(vocabulary, self.hidden)
        self.w = [(new(width, self.hidden), new(self.hidden, self.heads * self.d), new(2 * inner, self.hidden),
                   new(self.hidden, inner)) for _ in range(self.layers)]
        self.one = torch.ones(self.hidden, device=device, dtype=dtype)
        self.frequency = 500000.0 ** (-torch.arange(0, self.d, 2, device=device) / self.d)

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        angle = positions[:, None].float() * self.frequency
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, tokens, positions, cache, mask):
        """tokens [batch, length]; with a mask, attention looks at the whole cache, else at the tokens alone."""
        batch, length = tokens.shape
        x = F.embedding(tokens, self.embedding)
        for (qkv, out, up, down), (keys, values) in zip(self.w, cache):
            h = F.rms_norm(x, (self.hidden,), self.one, 1e-5)
            q, k, v = (h @ qkv.T).view(batch, length, -1, self.d).transpose(1, 2).split([self.heads, self.kv, self.kv], 1)
            q, k = self.rotate(q, positions), self.rotate(k, positions)
            keys.index_copy_(2, positions, k)
            values.index_copy_(2, positions, v)
            if mask is None:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            else:
                y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
            x = x + y.transpose(1, 2).reshape(batch, length, -1) @ out.T
            a, b = (F.rms_norm(x, (self.hidden,), self.one, 1e-5) @ up.T).chunk(2, -1)
            x = x + (F.silu(a) * b) @ down.T
        return (F.rms_norm(x[:, -1], (self.hidden,), self.one, 1e-5) @ self.head.T).float().argmax(-1)

    def cache(self, batch: int, length: int):
        new = lambda: torch.zeros(batch, self.kv, length, self.d, device=self.embedding.device, dtype=self.embedding.dtype)
        return [(new(), new()) for _ in range(self.layers)]


def timed(f, repeats: int) -> float:
    sync = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(3):
        f()
    sync()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        f()
        sync()
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def captured(step):
    """A step with fixed arguments as a CUDA graph; itself on a CPU."""
    if not torch.cuda.is_available():
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("--batch", default="1,64,256")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--prefill", type=int, default=8192)
    o = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        a = torch.empty(2 << 30, device=device, dtype=torch.uint8)
        b = torch.empty_like(a)
        print(json.dumps({"what": "copy", "gb_per_s": 2 * a.numel() / timed(lambda: b.copy_(a), 20) / 1e9}))
        del a, b
        x = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
        print(json.dumps({"what": "matmul", "tflops": 2 * 8192**3 / timed(lambda: x @ x, 20) / 1e12}), flush=True)
    m = Llama(o.model, device, torch.bfloat16)
    for batch in map(int, o.batch.split(",")):
        length = o.prompt + 128
        cache, step = m.cache(batch, length), torch.compile(m.forward, dynamic=False)
        tokens = torch.ones(batch, 1, device=device, dtype=torch.long)
        positions = torch.full((1,), o.prompt + 32, device=device)
        mask = (torch.arange(length, device=device) <= o.prompt + 32)[None, None, None]
        s = timed(captured(lambda: step(tokens, positions, cache, mask)), 30)
        print(json.dumps({"what": "decode", "batch": batch, "context": o.prompt, "step_ms": s * 1e3}), flush=True)
        del cache
    cache, step = m.cache(1, o.prefill), torch.compile(m.forward)
    tokens = torch.ones(1, o.prefill, device=device, dtype=torch.long)
    s = timed(lambda: step(tokens, torch.arange(o.prefill, device=device), cache, None), 5)
    print(json.dumps({"what": "prefill", "tokens": o.prefill, "ms": s * 1e3}), flush=True)


main()

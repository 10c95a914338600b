"""PyTorch programs under eager, Inductor and Talweg, in one run: milliseconds a call, forward or training step.

    python scripts/bench_torch_backend.py                      # all
    python scripts/bench_torch_backend.py mlp resnet18 --rounds 3 --json out.json
    python scripts/bench_torch_backend.py --device cuda --batch 8   # batches eight times as large

Needs PyTorch and torchvision, and transformers for `bert`; models whose package is missing are left out and named. Each figure is the least median of the rounds; the peers
take turns, so that a disturbed moment strikes all. The loss after three steps is compared with eager's.
"""

import argparse
import copy
import json
import statistics
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F

import talweg.torch_backend as backend

warnings.simplefilter("ignore")
torch._dynamo.config.allow_rnn = True


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """nanoGPT's small configuration of characters, with 4 layers."""

    def __init__(self, vocabulary=65, d=128, heads=4, layers=4, length=128):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, d), nn.Parameter(torch.zeros(length, d))
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x)).flatten(0, 1)


class LstmLm(nn.Module):
    def __init__(self, vocabulary=1000, d=128):
        super().__init__()
        self.embed, self.lstm, self.out = nn.Embedding(vocabulary, d), nn.LSTM(d, d, 2, batch_first=True), nn.Linear(d, vocabulary)

    def forward(self, ids):
        return self.out(self.lstm(self.embed(ids))[0]).flatten(0, 1)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertForMaskedLM

        config = BertConfig(vocab_size=1000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512,
                            max_position_embeddings=128, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
        self.model = BertForMaskedLM(config)

    def forward(self, ids):
        return self.model(input_ids=ids).logits.flatten(0, 1)


def vision(name, **settings):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(num_classes=10, **settings)

    return make


def vit():
    import torchvision

    return torchvision.models.VisionTransformer(32, 4, 4, 4, 128, 256, num_classes=10)


def images(n, side):
    return lambda more: (torch.randn(n * more, 3, side, side), torch.randint(0, 10, (n * more,)))


def tokens(n, length, vocabulary):
    return lambda more: (
        torch.randint(0, vocabulary, (n * more, length)),
        torch.randint(0, vocabulary, (n * more * length,)),
    )


MODELS = {
    "mlp": (Mlp, lambda more: (torch.randn(8 * more, 16), torch.randint(0, 4, (8 * more,)))),
    "resnet18": (vision("resnet18"), images(8, 64)),
    "mobilenet": (vision("mobilenet_v3_small"), images(8, 64)),
    "vit": (vit, images(16, 32)),
    "gpt": (Gpt, tokens(8, 128, 65)),
    "lstm": (LstmLm, tokens(16, 24, 1000)),
    "bert": (Bert, tokens(8, 64, 1000)),
}
PEERS = ("eager", "inductor", "talweg", "talweg frozen")


def wrapped(model, peer):
    if peer == "eager":
        return model
    name, _, more = peer.partition(" ")
    return torch.compile(model, backend=name, **({"options": {"frozen": True}} if more else {}))


def training(model, f, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)

    def step():
        loss = F.cross_entropy(f(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def inference(model, f, x, y):
    model.eval()

    def step():
        with torch.no_grad():
            return f(x).square().mean()

    return step


def median_ms(step, seconds, wait):
    step()
    wait()
    start = time.perf_counter()
    step()
    wait()
    once = time.perf_counter() - start
    inner = max(1, int(0.01 / max(once, 1e-9)))
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            step()
        wait()
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times) * 1e3


def measure(name, mode, rounds, seconds, peers, device, batch):
    make, example = MODELS[name]
    torch.manual_seed(0)
    first, (x, y) = make().to(device), (t.to(device) for t in example(batch))
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    steps, checks, compile_s = {}, {}, {}
    for peer in peers:
        if mode == "train" and "frozen" in peer:
            continue
        model = copy.deepcopy(first)
        step = (training if mode == "train" else inference)(model, wrapped(model, peer), x, y)
        start = time.perf_counter()
        for _ in range(3):
            checks[peer] = step().item()
        compile_s[peer] = time.perf_counter() - start
        steps[peer] = step
    best = {}
    for _ in range(rounds):
        for peer, step in steps.items():
            ms = median_ms(step, seconds, wait)
            best[peer] = min(best.get(peer, ms), ms)
    apart = max(abs(c - checks["eager"]) / max(abs(checks["eager"]), 1e-9) for c in checks.values())
    return {"model": name, "mode": mode, "ms": best, "compile_s": compile_s, "check_apart": apart}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--modes", default="infer,train")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1, help="how many times as large batches are")
    parser.add_argument("--json")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results = []
    print(f"{'':22}" + "".join(f"{p:>15}" for p in given.peers.split(",")) + f"{'÷ inductor':>12}{'check':>10}")
    for name in given.models:
        for mode in given.modes.split(","):
            torch._dynamo.reset()
            try:
                r = measure(name, mode, given.rounds, given.seconds, given.peers.split(","), given.device, given.batch)
            except ModuleNotFoundError as e:
                print(f"{name + ' ' + mode:22}left out: {e}")
                continue
            results.append(r)
            ms = r["ms"]
            cells = "".join(f"{ms[p]:15.4f}" if p in ms else f"{'':15}" for p in given.peers.split(","))
            ours = min(v for p, v in ms.items() if p.startswith("talweg")) if any(p.startswith("talweg") for p in ms) else 0
            ratio = f"{ms['inductor'] / ours:12.2f}" if ours and "inductor" in ms else f"{'':12}"
            print(f"{name + ' ' + mode:22}{cells}{ratio}{r['check_apart']:10.1e}", flush=True)
    print(backend.report())
    if given.json:
        with open(given.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()

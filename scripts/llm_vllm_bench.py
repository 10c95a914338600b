"""`vllm bench serve` against `talweg serve`: the client is `vllm-rs` inside PyPI's `vllm` wheel, which needs no Python.

    pip download --no-deps vllm && unzip vllm-*.whl vllm/vllm-rs
    python scripts/llm_vllm_bench.py MODEL.gguf --client vllm/vllm-rs --talweg target/release/talweg --what load prefix
Parts (`--what`): `load`, 8 clients at once; `prefix`, the first token with and without a shared prefix of 90 %; `overload`,
twice the rate that `load` has reached, with `--ttft-ms`. Needs gguf, and tokenizers for byte-level BPE vocabularies.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers


def tokenizer(path: str, folder: str) -> None:
    """tokenizer.json of a GGUF file's byte-level BPE."""
    fields = gguf.GGUFReader(path).fields
    words, kinds = fields["tokenizer.ggml.tokens"].contents(), fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ", 1)) for m in fields["tokenizer.ggml.merges"].contents()]
    t = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=merges))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens([AddedToken(w, special=True) for w, k in zip(words, kinds) if k == 3])
    t.save(os.path.join(folder, "tokenizer.json"))


class Server:
    """`talweg serve` until the end of a block."""

    def __init__(self, o: argparse.Namespace, *flags: str) -> None:
        args = [*o.talweg.split(), "serve", o.model, "--port", "0", *flags]
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        while not (found := re.search(r"http://[\w.]+:\d+", said)):
            line = self.process.stdout.readline()
            assert line, f"the server ended: {said}"
            said += line
        self.url = found.group(0)

    def __enter__(self) -> str:
        return self.url

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


def bench(o: argparse.Namespace, url: str, folder: str, *flags: str) -> dict:
    args = [o.client, "bench", "serve", "--backend", "openai", "--base-url", url, "--model", "default", "--tokenizer", folder,
            "--dataset-name", "random", "--ignore-eos", "--temperature", "0", "--disable-tqdm", "--no-steady-state",
            "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99", "--save-result", "--result-dir", folder,
            "--result-filename", "result.json", *flags]
    done = subprocess.run(args, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    with open(os.path.join(folder, "result.json")) as f:
        return json.load(f)


def report(what: str, r: dict, **more: object) -> None:
    keys = ["completed", "failed", "duration", "request_throughput", "request_goodput", "output_throughput", "mean_ttft_ms",
            "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms", "median_tpot_ms"]
    print(json.dumps({"what": what, **{k: round(r[k], 2) for k in keys if r.get(k) is not None}, **more}), flush=True)


def load(o: argparse.Namespace, folder: str) -> float:
    """Eight clients, prompts of 128 tokens, 32 tokens each; requests a second."""
    with Server(o) as url:
        flags = ["--random-input-len", "128", "--random-output-len", "32", "--max-concurrency", "8"]
        bench(o, url, folder, *flags, "--num-prompts", "8", "--seed", "1")
        r = bench(o, url, folder, *flags, "--num-prompts", str(o.requests), "--seed", "2",
                  "--goodput", f"ttft:{o.ttft_ms}", "tpot:50")
    report("load", r)
    return r["request_throughput"]


def prefix(o: argparse.Namespace, folder: str) -> None:
    """One client, prompts of 512 tokens: all new, then with 461 in common."""
    with Server(o) as url:
        flags = ["--random-output-len", "4", "--max-concurrency", "1"]
        bench(o, url, folder, *flags, "--random-input-len", "512", "--num-prompts", "2", "--seed", "1")
        cold = bench(o, url, folder, *flags, "--random-input-len", "512", "--num-prompts", "12", "--seed", "2")
        flags += ["--random-prefix-len", "461", "--random-input-len", "51"]
        bench(o, url, folder, *flags, "--num-prompts", "2", "--seed", "3")
        warm = bench(o, url, folder, *flags, "--num-prompts", "12", "--seed", "3")
    report("cold", cold)
    report("shared prefix of 90 %", warm, of_cold=round(warm["median_ttft_ms"] / cold["median_ttft_ms"], 3))


def overload(o: argparse.Namespace, folder: str) -> None:
    rate = o.rate or load(o, folder)
    with Server(o, "--ttft-ms", str(o.ttft_ms), "--sequences", "8") as url:
        flags = ["--random-input-len", "128", "--random-output-len", "32"]
        bench(o, url, folder, *flags, "--num-prompts", "8", "--seed", "1", "--max-concurrency", "8")
        r = bench(o, url, folder, *flags, "--num-prompts", str(int(2 * rate * o.seconds)), "--seed", "4",
                  "--request-rate", f"{2 * rate:.2f}", "--goodput", f"ttft:{o.ttft_ms}", "--save-detailed")
    times = [t * 1e3 for t, e in zip(r["ttfts"], r.get("errors") or [""] * len(r["ttfts"])) if t > 0 and not e]
    kept = sum(t <= o.ttft_ms for t in times)
    report("twice saturation", r, rate=round(2 * rate, 2), accepted=len(times), in_time=kept,
           answered_of_saturation=round(len(times) / r["duration"] / rate, 2))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--client", default="vllm-rs")
    parser.add_argument("--talweg", default="target/release/talweg", help="the command")
    parser.add_argument("--what", choices=["load", "prefix", "overload"], nargs="+", default=["load", "prefix", "overload"])
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--ttft-ms", type=int, default=1000)
    parser.add_argument("--rate", type=float, help="the saturation rate in requests a second, if it is known")
    parser.add_argument("--tokenizer", help="a folder with the model's tokenizer.json; it is made if it has none")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = o.tokenizer or folder
        if not os.path.exists(os.path.join(folder, "tokenizer.json")):
            tokenizer(o.model, folder)
        for what in o.what:
            {"load": load, "prefix": prefix, "overload": overload}[what](o, folder)


main()

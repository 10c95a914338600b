"""Continuous batching over HTTP beside llama.cpp's server (xllamacpp), on one GGUF file in one run.

    python scripts/llm_serve_bench.py MODEL.gguf --talweg target/release/talweg
Measures aggregate decode at several concurrencies, the time to the first token with a shared prefix, and the gaps
between tokens while long prompts arrive. The client streams, so that both servers do the same work.
"""

import argparse
import http.client
import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
WORDS = "time year people way day man thing woman life child world school state family student group country problem " \
    "hand part place case week company system program question work government number night point home water room " \
    "mother area money story fact month lot right study book eye job word business issue side kind head house".split()


def text(seed: int, words: int) -> str:
    state = seed * 2654435761 + 12345
    out = []
    for _ in range(words):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        out.append(WORDS[(state >> 33) % len(WORDS)])
    return " ".join(out)


class Refused(Exception):
    """The server has too much to do."""


def stream(url: str, prompt: str, tokens: int) -> list[float]:
    """Times at which tokens came, from the request on."""
    at = urllib.parse.urlparse(url)
    c = http.client.HTTPConnection(at.hostname, at.port, timeout=600)
    body = {"model": "default", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    began = time.perf_counter()
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    if r.status == 429:
        c.close()
        raise Refused
    assert r.status == 200, r.read()
    times = []
    while line := r.readline():
        if line.startswith(b"data: {"):
            times.append(time.perf_counter() - began)
    c.close()
    return times


def together(url: str, n: int, tokens: int, seed: int, words: int = 20) -> float:
    """Tokens a second of so many streams, after the last of them began to answer."""
    results: list[list[float]] = [[] for _ in range(n)]
    offset = time.perf_counter()

    def one(i: int) -> None:
        at = time.perf_counter() - offset
        results[i] = [t + at for t in stream(url, text(seed + i, words), tokens)]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    first, last = max(r[0] for r in results), max(r[-1] for r in results)
    return sum(sum(t > first for t in r) for r in results) / max(last - first, 1e-9)


def percentile(x: list[float], p: float) -> float:
    return sorted(x)[min(len(x) - 1, int(p / 100 * len(x)))]


def prefixes(url: str, rounds: int) -> dict:
    """512-token prompts, of which 90 % are the same."""
    cold, warm = [], []
    for i in range(rounds):
        shared = text(9000 + i, 455)
        cold.append(stream(url, shared + " " + text(100 + i, 50), 1)[0])
        warm.append(stream(url, shared + " " + text(200 + i, 50), 1)[0])
    return {"cold_ms": statistics.median(cold) * 1e3, "warm_ms": statistics.median(warm) * 1e3,
            "percent": 100 * statistics.median(warm) / statistics.median(cold)}


def gaps(url: str, tokens: int) -> dict:
    """The gaps between tokens of four streams, alone and while prompts of 1,500 tokens arrive."""
    out = {}
    for name, long in [("alone", 0), ("long_prompts", 4)]:
        results: list[list[float]] = [[] for _ in range(4)]

        def one(i: int) -> None:
            results[i] = stream(url, text(300 + i, 20), tokens)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        for i in range(long):
            stream(url, text(5000 + i, 1500), 1)
        [t.join() for t in threads]
        all_gaps = [b - a for r in results for a, b in zip(r[1:], r[2:])]
        out[name] = {"p50_ms": percentile(all_gaps, 50) * 1e3, "p99_ms": percentile(all_gaps, 99) * 1e3}
    out["p99_ratio"] = out["long_prompts"]["p99_ms"] / out["alone"]["p99_ms"]
    return out


def together_for(url: str, clients: int, seconds: float) -> float:
    """Requests a second that are answered when so many clients always wait for one."""
    done: list[list[float]] = []
    began = time.perf_counter()

    def one(seed: int) -> None:
        while time.perf_counter() < began + seconds:
            done.append(stream(url, text(seed, 60), 32))
            seed += 1000

    threads = [threading.Thread(target=one, args=(i,)) for i in range(clients)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return len(done) / (time.perf_counter() - began)


def overload(url: str, o: argparse.Namespace, rate: float) -> dict:
    """Twice the requests that the server can answer: do those that it accepts keep the target of `--ttft-ms`?"""
    done: list[list[float]] = []
    refused = []
    # Programs are compiled, and what came before them no longer counts.
    [stream(url, text(i, 60), 2) for i in range(40)]

    def one(seed: int) -> None:
        try:
            done.append(stream(url, text(seed, 60), 32))
        except Refused:
            refused.append(seed)

    began, threads = time.perf_counter(), []
    for i in range(int(2 * rate * o.seconds)):
        time.sleep(max(0.0, began + i / (2 * rate) - time.perf_counter()))
        threads.append(threading.Thread(target=one, args=(100_000 + i,)))
        threads[-1].start()
    [t.join() for t in threads]
    first = [1e3 * t[0] for t in done]
    return {"saturation_requests_per_s": rate, "offered": len(threads), "accepted": len(done), "refused": len(refused),
            "answered_of_saturation": len(done) / (time.perf_counter() - began) / rate, "target_ms": o.ttft_ms,
            "ttft_p50_ms": percentile(first, 50), "ttft_p99_ms": percentile(first, 99),
            "in_time": sum(t <= o.ttft_ms for t in first) / len(first)}


def measure(url: str, o: argparse.Namespace) -> dict:
    together(url, max(o.concurrency), 4, 7)  # compiles, fills caches
    out = {}
    for n in o.concurrency:
        together(url, n, 8, 1000 + n)
        out[f"tokens_per_s_{n}"] = round(max(together(url, n, o.tokens, 50 * n + r) for r in range(o.rounds)), 1)
    return out


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def talweg(o: argparse.Namespace) -> dict:
    def served(work: Callable[[str], T], *options: str) -> T:
        port = free_port()
        command = [o.talweg, "serve", o.model, "--port", str(port), *o.options.split(), *options]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout and re.search("http://", server.stdout.readline())
            return work(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
            server.wait(20)

    def all_of(url: str) -> dict:
        out = measure(url, o)
        if o.all:
            out["prefix"], out["gaps"] = prefixes(url, 5), gaps(url, 120)
        return out

    if not o.ttft_ms:
        return served(all_of)
    slots = ["--sequences", str(o.sequences)]
    # As many clients as sequences run at once, without a target: what the server can do.
    saturated = lambda url: max(together_for(url, o.sequences, s) for s in (2, 8))
    rate = served(saturated, *slots)
    return served(lambda url: overload(url, o, rate), *slots, "--ttft-ms", str(o.ttft_ms))


def llama_cpp(o: argparse.Namespace) -> dict:
    import xllamacpp as x

    p = x.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.port = o.model, 8 * 1024, 8, True, free_port()
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = o.threads
    server = x.Server(p)
    return measure(server.listening_address, o)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--talweg", default="target/release/talweg")
    parser.add_argument("--options", default="", help="more options of `talweg serve`")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="prefixes and gaps as well")
    parser.add_argument("--ttft-ms", type=int, help="instead: twice the saturation load, with this target of the server")
    parser.add_argument("--sequences", type=int, default=8, help="sequences that run at once under --ttft-ms")
    parser.add_argument("--seconds", type=float, default=15, help="how long the overload lasts")
    parser.add_argument("--alone", action="store_true", help="without llama.cpp")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.peer:
        print("RESULT " + json.dumps(llama_cpp(o)), flush=True)
        return
    print(json.dumps({"talweg": talweg(o)}), flush=True)
    if not o.alone and not o.ttft_ms:
        # In a process of its own, which ends its threads.
        command = [sys.executable, __file__, *sys.argv[1:], "--peer"]
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        print(json.dumps({"llama_cpp": [json.loads(l[7:]) for l in lines if l.startswith("RESULT ")]}))


main()

#!/usr/bin/env python3
"""Measures `talweg serve` of a language model beside its engine: tokens a second of streams that decode together.

    python scripts/llm_serve_gpu.py target/release/talweg llama-1b --streams 64

The model is a GGUF file, a folder, or the name of one with random weights. Clients are processes that stream completions
of random tokens over HTTP. Tokens count while all streams decode. `bench-model` measures the engine before, over the
same positions. The device is that of `TALWEG_DEVICE`.
"""

import argparse
import json
import multiprocessing
import random
import selectors
import socket
import subprocess
import time


def client(address, seed, streams, o, results):
    """Streams several completions; sends the times at which each token came."""
    rng, selector, times = random.Random(seed), selectors.DefaultSelector(), []
    for i in range(streams):
        prompt = [rng.randrange(256) for _ in range(o.prompt)]
        body = {"model": "m", "prompt": prompt, "max_tokens": o.tokens, "temperature": 0, "ignore_eos": True, "stream": True}
        body = json.dumps(body).encode()
        s = socket.create_connection(address)
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        selector.register(s, selectors.EVENT_READ, i)
        times.append([])
    last = b""
    while selector.get_map():
        for key, _ in selector.select(120) or [(None, None)]:
            if key is None:
                raise SystemExit(f"no token for 120 s: {last[:300]}")
            last = key.fileobj.recv(1 << 16)
            times[key.data].extend([time.monotonic()] * last.count(b"data: {"))
            if not last or b"[DONE]" in last:
                selector.unregister(key.fileobj)
                key.fileobj.close()
    results.put(times)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("model")
    arguments.add_argument("--streams", type=int, default=64)
    arguments.add_argument("--processes", type=int, default=8)
    arguments.add_argument("--prompt", type=int, default=512)
    arguments.add_argument("--tokens", type=int, default=1024)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--cache-mb", type=int, default=20000)
    o = arguments.parse_args()
    cache = ["--cache-type", "bf16"]
    bench = [o.program, "bench-model", o.model, "--batch", o.streams, "--prompt", o.prompt, "--tokens", o.tokens, "--prefill", 64, *cache]
    done = subprocess.run([*map(str, bench)], capture_output=True, text=True, check=True)
    engine = next(json.loads(l)["tokens_per_s"] for l in done.stdout.splitlines() if '"decode"' in l)
    serve = [o.program, "serve", o.model, "--port", 0, "--name", "m", "--sequences", o.streams, "--step-tokens", 2048,
             "--cache-mb", o.cache_mb, "--length", o.prompt + o.tokens + 1, *cache]
    server = subprocess.Popen([*map(str, serve)], stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        host = next(w for w in line.split() if w.startswith("http://")).removeprefix("http://").rstrip("/")
        address = (host.split(":")[0], int(host.split(":")[1]))
        for n in range(1 + o.rounds):
            results = multiprocessing.Queue()
            each = o.streams // o.processes
            workers = [multiprocessing.Process(target=client, args=(address, 100 * n + i, each, o, results)) for i in range(o.processes)]
            for w in workers:
                w.start()
            times = [t for _ in workers for t in results.get()]
            for w in workers:
                w.join()
            begin, end = max(t[0] for t in times), min(t[-1] for t in times)
            rate = sum(begin < x <= end for t in times for x in t) / (end - begin)
            if n > 0:  # The first round compiles.
                print(f"engine {engine:,.0f} tokens/s, server {rate:,.0f}: {rate / engine:.3f}", flush=True)
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()

"""Clients that go away: after all of them, the KV cache of a running server must be empty.

    talweg serve model.gguf --port 8000 &
    python scripts/llm_disconnects.py http://127.0.0.1:8000 --count 1000
"""

import argparse
import http.client
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlparse


def metric(host, name):
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return float(next(line for line in text.splitlines() if line.startswith(name + "{")).rsplit(" ", 1)[1])


def leave(host, seed):
    """Begins a stream and goes away: at once, after the head, or after some text."""
    draw = random.Random(seed)
    connection = http.client.HTTPConnection(host, timeout=60)
    body = {"prompt": f"{seed} goes away " * draw.randint(1, 20), "max_tokens": 200, "stream": True, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    if draw.random() < 0.7:
        response = connection.getresponse()
        if draw.random() < 0.5:
            response.read(draw.randint(1, 400))
    connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=16)
    o = parser.parse_args()
    host, began = urlparse(o.url).netloc, time.time()
    with ThreadPoolExecutor(o.threads) as pool:
        list(pool.map(lambda seed: leave(host, seed), range(o.count)))
    left = time.time()
    while metric(host, "vllm:kv_cache_usage_perc") > 0 or metric(host, "vllm:num_requests_running") > 0:
        if time.time() - left > 120:
            raise SystemExit(f"the KV cache is still used: {metric(host, 'vllm:kv_cache_usage_perc')}")
        time.sleep(0.1)
    print(f"{o.count} disconnects in {left - began:.1f} s; KV use is zero {time.time() - left:.2f} s later")


if __name__ == "__main__":
    main()

"""Sends malformed requests to a running `talweg serve` and checks that it stays up.

    python scripts/fuzz_serve.py 127.0.0.1:8000 MODEL [--count 1000000] [--seed 1]

Each request is a valid one with random changes: bytes of the head or the body, lengths, shapes, datatypes, encodings,
cut-off messages. Any answer but a 500 is allowed, and so is a closed connection. Every thousand requests, the server
must be ready and answer a valid request with the same bytes as before; its memory is printed at the end.
"""

import argparse
import json
import random
import socket
import urllib.request


def valid(host, model):
    metadata = json.load(urllib.request.urlopen(f"http://{host}/v2/models/{model}", timeout=60))
    inputs = []
    for t in metadata["inputs"]:
        shape = [max(1, d) for d in t["shape"]]
        count = 1
        for d in shape:
            count *= d
        inputs.append({"name": t["name"], "shape": shape, "datatype": t["datatype"], "data": [1] * count})
    return {"inputs": inputs}


def head(model, length, extra=""):
    return f"POST /v2/models/{model}/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{extra}\r\n"


ODD = [-1, 0, 2**31, 2**63, 1e308, None, "x", [], {}, True, [[1], [2, 3]], "FP64", "BYTES", "\ud800"]


def change_value(r, value):
    """The request with one place of its tree replaced."""
    value = json.loads(json.dumps(value))
    at = value
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return value
        key = r.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and r.random() < 0.7:
            at = at[key]
        elif r.random() < 0.2:
            del at[key]
            return value
        else:
            at[key] = r.choice(ODD)
            return value


def flip(r, data):
    data = bytearray(data)
    for _ in range(r.randint(1, 8)):
        if not data:
            break
        i = r.randrange(len(data))
        match r.randrange(3):
            case 0:
                data[i] = r.randrange(256)
            case 1:
                del data[i : i + r.randint(1, 9)]
            case _:
                data[i:i] = bytes(r.randrange(256) for _ in range(r.randint(1, 9)))
    return bytes(data)


EXTRA = ["content-encoding: gzip\r\n", "content-encoding: deflate\r\n", "content-encoding: br\r\n", "accept-encoding: gzip\r\n",
         "inference-header-content-length: 5\r\n", "inference-header-content-length: -1\r\n", "transfer-encoding: chunked\r\n",
         "inference-header-content-length: 0\r\n", "traceparent: 00-é\r\n", "x-request-id: \x01\r\n", "connection: close\r\n",
         "expect: 100-continue\r\n", "inference-header-content-length: 99999999999999999999\r\n"]


def message(r, model, request):
    kind = r.randrange(6)
    body = json.dumps(change_value(r, request) if kind == 0 else request).encode("utf-8", "surrogatepass")
    if kind == 1:
        body = flip(r, body)
    if kind == 2:
        body = bytes(r.randrange(256) for _ in range(r.randint(0, 300)))
    length = r.choice([len(body), len(body), len(body), r.randrange(2 * len(body) + 2)]) if kind == 3 else len(body)
    extra = r.choice(EXTRA) if kind == 4 else ""
    text = head(model, length, extra).encode("utf-8")
    return (flip(r, text) if kind == 5 else text) + body, kind < 3


def resident(host):
    text = urllib.request.urlopen(f"http://{host}/metrics", timeout=60).read().decode()
    return next((float(l.split()[1]) for l in text.splitlines() if l.startswith("process_resident_memory_bytes")), 0)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("host")
    arguments.add_argument("model")
    arguments.add_argument("--count", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=1)
    o = arguments.parse_args()
    r, request = random.Random(o.seed), valid(o.host, o.model)
    address = (o.host.split(":")[0], int(o.host.split(":")[1]))

    def ask():
        """The outputs of a batch of this request alone: in a larger one, sums may be rounded otherwise."""
        while True:
            url, body = f"http://{o.host}/v2/models/{o.model}/infer", json.dumps(request).encode()
            answer = json.load(urllib.request.urlopen(urllib.request.Request(url, body), timeout=60))
            if answer["parameters"]["batch_size"] == 1:
                return answer["outputs"]

    want, before, counts = ask(), resident(o.host), {}
    for n in range(o.count):
        with socket.create_connection(address, timeout=60) as s:
            try:
                sent, is_whole = message(r, o.model, request)
                s.sendall(sent)
                if not is_whole:
                    # What is cut off gets no answer before the server's patience ends: the client leaves.
                    s.shutdown(socket.SHUT_WR)
                line = s.recv(64).split(b" ")
            except OSError:
                line = []
        status = line[1].decode("latin1") if len(line) > 1 else "closed"
        counts[status] = counts.get(status, 0) + 1
        assert status != "500", (o.seed, n)
        if n % 1000 == 999:
            assert ask() == want, (o.seed, n)
    assert ask() == want
    print(json.dumps({"sent": o.count, "answers": counts, "resident_mb": [before / 2**20, resident(o.host) / 2**20]}))


if __name__ == "__main__":
    main()

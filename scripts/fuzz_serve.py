"""Sends malformed requests to a running `talweg serve` and checks that it stays up.

    python scripts/fuzz_serve.py 127.0.0.1:8000 MODEL [--count 1000000] [--workers 8] [--seed 1]

Each message is a valid request with random changes: bytes of the head or the body, lengths, shapes, datatypes, encodings,
framing, cut-off messages. Tensors are text or binary, and up to some hundred kilobytes. Some messages share a connection,
and some are sent in pieces. Any answer but a 500 is allowed, and so is a closed connection. Bodies of messages with
ambiguous framing hold a request of their own: an answer to it is request smuggling. Every thousand messages, a worker
asks a valid request, which must have the same outputs as before; the memory of the server is printed at the end.
"""

import argparse
import collections
import json
import math
import multiprocessing
import random
import re
import socket
import struct
import time
import urllib.error
import urllib.request

SMUGGLED = b"x-request-id: smuggled"


def valid(host, model):
    metadata = json.load(urllib.request.urlopen(f"http://{host}/v2/models/{model}", timeout=60))
    inputs = []
    for t in metadata["inputs"]:
        shape = [max(1, d) for d in t["shape"]]
        inputs.append({"name": t["name"], "shape": shape, "datatype": t["datatype"], "data": [1] * math.prod(shape)})
    return {"inputs": inputs}


def head(model, headers):
    return f"POST /v2/models/{model}/infer HTTP/1.1\r\nhost: x\r\n{headers}\r\n".encode()


ODD = [-1, 0, 2**31, 2**63, 1e308, None, "x", [], {}, True, [[1], [2, 3]], "FP64", "BYTES", "\ud800"]
FORMATS = {"FP32": "f", "FP64": "d", "INT64": "q", "INT32": "i"}


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
         "expect: 100-continue\r\n", "inference-header-content-length: 99999999999999999999\r\n", "host: y\r\n", "te: trailers\r\n",
         "upgrade: h2c\r\nconnection: upgrade\r\n", "x: " + "y" * 9000 + "\r\n", "trailer: x\r\n", "connection: keep-alive, te\r\n"]
# Framing that must be refused, or after whose answer the connection must be closed; `{}` is the length of the body.
AMBIGUOUS = ["content-length: {}\r\ncontent-length: 0\r\n", "content-length: 0, {}\r\n", "content-length: +0\r\n", "content-length: -0\r\n",
             "content-length: 0x0\r\n", "content-length : 0\r\n", "content-length:\x0b0\r\n", "transfer-encoding: xchunked\r\n",
             "transfer-encoding : chunked\r\n", "transfer-encoding: chunked, identity\r\n", "x: 1\r\n transfer-encoding: chunked\r\n",
             "transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n", "content-length: {}\r\ntransfer-encoding: chunked\r\n",
             "transfer-encoding: chunked\r\ncontent-length: 0\r\n", "content-length: {}\r\n\rcontent-length: 0\r\n"]
METHODS = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "PRI", "post", "P\u00d6ST"]
TARGETS = ["*", "http://x/v2/models/{}/infer", "/v2/models/{}/infer?x=1", "/v2/models/%2e%2e/infer", "/v2//models/{}/infer", "//",
           "/v2/models/{}/versions/1/infer", "/v2/models/{}/versions/99999999999999999999/infer", "/v1/models/{}:predict", "x:1", "/%00"]


def binary(r, model, request, rows):
    """A message with binary tensors, some of whose sizes may be wrong."""
    tensors, inputs = b"", []
    for t in request["inputs"]:
        shape = [rows, *t["shape"][1:]]
        code = FORMATS.get(t["datatype"])
        if code is None:
            return None
        data = struct.pack(f"<{code}", 1) * math.prod(shape)
        size = len(data) + r.choice([0, 0, 0, 0, 1, -1, 7])
        inputs.append({"name": t["name"], "shape": shape, "datatype": t["datatype"], "parameters": {"binary_data_size": size}})
        tensors += data
    text = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": r.random() < 0.8}}).encode()
    of_json = len(text) + r.choice([0, 0, 0, 0, 1, -1, len(tensors)])
    length = len(text) + len(tensors) + r.choice([0, 0, 0, 0, 0, -1, -100])
    headers = f"content-length: {max(length, 0)}\r\ninference-header-content-length: {of_json}\r\n"
    return head(model, headers) + text + tensors


def message(r, model, request):
    """A message, and whether it is whole."""
    kind = r.randrange(10)
    body = json.dumps(change_value(r, request) if kind == 0 else request).encode("utf-8", "surrogatepass")
    plain = lambda n, extra="": head(model, f"content-length: {n}\r\n{extra}")
    match kind:
        case 1:
            body = flip(r, body)
        case 2:
            body = bytes(r.randrange(256) for _ in range(r.randint(0, 300)))
        case 3:
            return plain(r.randrange(2 * len(body) + 2)) + body, False
        case 4:
            return plain(len(body), r.choice(EXTRA)) + body, False
        case 5:
            return flip(r, plain(len(body))) + body, False
        case 6:
            inner = b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n" + SMUGGLED + b"\r\n\r\n"
            return head(model, r.choice(AMBIGUOUS).replace("{}", str(len(inner)))) + inner, False
        case 7:
            method, target = r.choice(["POST", *METHODS]), r.choice([f"/v2/models/{model}/infer", *TARGETS]).replace("{}", model)
            version = r.choice(["1.1", "1.1", "1.1", "1.0", "2.0", "0.9", "1.10"])
            return f"{method} {target} HTTP/{version}\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body, False
        case 8:
            text = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[:9], body[9:])) + b"0\r\n\r\n"
            text = flip(r, text) if r.random() < 0.8 else text
            return head(model, "transfer-encoding: chunked\r\n") + text, False
        case 9:
            rows = r.choice([0, 1, 1, 2, 7, 300]) if r.random() < 0.97 else 3000
            made = binary(r, model, request, rows)
            if made is not None:
                return made, False
    return plain(len(body)) + body, True


def exchange(r, address, messages):
    """Sends messages on one connection; returns the statuses of what is answered."""
    whole = all(is_whole for _, is_whole in messages)
    got = b""
    with socket.create_connection(address, timeout=90) as s:
        try:
            data = b"".join(m for m, _ in messages)
            cuts = sorted(r.randrange(len(data)) for _ in range(r.choice([0, 0, 0, 1, 3])))
            for a, b in zip([0, *cuts], [*cuts, len(data)]):
                s.sendall(data[a:b])
            if whole and len(messages) == 1:
                got = s.recv(65536)
            else:
                # What is cut off gets no answer before the server's patience ends: the client leaves, or ends what it sends,
                # which the server takes for leaving.
                if r.random() < 0.5:
                    s.shutdown(socket.SHUT_WR)
                else:
                    s.settimeout(0.03)
                while more := s.recv(65536):
                    got += more
        except OSError:
            pass
    assert SMUGGLED not in got, messages
    return [status.decode() for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", got)] or ["closed"]


def resident(host):
    text = urllib.request.urlopen(f"http://{host}/metrics", timeout=60).read().decode()
    return next((float(l.split()[1]) for l in text.splitlines() if l.startswith("process_resident_memory_bytes")), 0)


def work(o, seed, count):
    """One worker's messages; returns how often each status came."""
    r, request, counts = random.Random(seed), valid(o.host, o.model), collections.Counter()
    address = (o.host.split(":")[0], int(o.host.split(":")[1]))

    def alone():
        """The outputs of a valid request in a batch of its own: in a larger one sums may be rounded otherwise."""
        url, body = f"http://{o.host}/v2/models/{o.model}/infer", json.dumps(request).encode()
        for _ in range(10_000):
            try:
                answer = json.load(urllib.request.urlopen(urllib.request.Request(url, body), timeout=60))
            except urllib.error.HTTPError as e:
                if e.code != 429:
                    raise AssertionError(f"{e.code}: {e.read()}") from None
                time.sleep(0.01)
                continue
            if answer["parameters"]["batch_size"] == 1:
                return answer["outputs"]
        raise AssertionError("no request was alone in its batch")

    want, sent, asked = alone(), 0, 0
    while sent < count:
        messages = [message(r, o.model, request) for _ in range(r.choice([1, 1, 1, 2, 4]))]
        # After a message of another length than it states, any byte may begin a request: then nothing is smuggled.
        messages = next(([m] for m in messages if SMUGGLED in m[0]), messages)
        statuses = exchange(r, address, messages)
        assert "500" not in statuses, (seed, sent, messages)
        counts.update(statuses)
        sent += len(messages)
        if sent // 1000 > asked:
            asked = sent // 1000
            assert alone() == want, (seed, sent)
    assert alone() == want
    return sent, counts


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("host")
    arguments.add_argument("model")
    arguments.add_argument("--count", type=int, default=1_000_000)
    arguments.add_argument("--workers", type=int, default=8)
    arguments.add_argument("--seed", type=int, default=1)
    o = arguments.parse_args()
    before, share = resident(o.host), -(-o.count // o.workers)
    with multiprocessing.Pool(o.workers) as pool:
        done = pool.starmap(work, [(o, o.seed * 1000 + i, share) for i in range(o.workers)])
    counts = sum((c for _, c in done), collections.Counter())
    ready = urllib.request.urlopen(f"http://{o.host}/v2/health/ready", timeout=60).status
    assert ready == 200
    print(json.dumps({"sent": sum(n for n, _ in done), "answers": counts, "resident_mb": [before / 2**20, resident(o.host) / 2**20]}))


if __name__ == "__main__":
    main()

"""Kills processes of `talweg serve --processes 2` under load and counts what becomes of the requests.

    python scripts/kill_serve.py TALWEG MODEL [--kills 50]

MODEL is the directory of an exported model. Four clients ask all the time, each up to three times for an answer. Every
request must be answered, with the outputs of the first one within 1e-5. A refusal (429, 503) is no try: the client waits and
asks again.
"""

import argparse
import http.client
import json
import math
import os
import pathlib
import signal
import subprocess
import threading
import time


# Refusals of one request at most, and seconds between them.
REFUSALS_MAX, PAUSE_S = 200, 0.05


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("model")
    arguments.add_argument("--kills", type=int, default=50)
    o = arguments.parse_args()
    command = [o.program, "serve", o.model, "--port", "0", "--processes", "2"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    host = server.stdout.readline().split()[3].removeprefix("http://").rstrip("/")

    def send(method, path, body=None):
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None, None
        finally:
            connection.close()

    name = send("POST", "/v2/repository/index", "{}")[1][0]["name"]
    inputs = []
    for t in send("GET", f"/v2/models/{name}")[1]["inputs"]:
        shape = [max(1, d) for d in t["shape"]]
        inputs.append({"name": t["name"], "shape": shape, "datatype": t["datatype"], "data": [1] * math.prod(shape)})
    ask = lambda: send("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": inputs}))
    want = ask()[1]["outputs"][0]["data"]
    counts, lock, is_done = {"answered": 0, "retried": 0, "lost": 0, "wrong": 0, "refused": 0}, threading.Lock(), threading.Event()

    def client():
        while not is_done.is_set():
            attempt, refused, status = -1, 0, None
            while status != 200 and attempt < 2 and refused < REFUSALS_MAX:
                status, answer = ask()
                if status in (429, 503):
                    refused += 1
                    time.sleep(PAUSE_S)
                else:
                    attempt += 1
            with lock:
                counts["refused"] += refused
                counts["retried"] += attempt > 0
                counts["answered" if status == 200 else "lost"] += 1
                if status == 200:
                    got = answer["outputs"][0]["data"]
                    counts["wrong"] += any(abs(a - b) > 1e-5 for a, b in zip(want, got, strict=True))

    def members():
        children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
        return [int(p) for p in children.split()]

    threads = [threading.Thread(target=client) for _ in range(4)]
    for t in threads:
        t.start()
    for n in range(o.kills):
        while len(members()) < 2:
            time.sleep(0.02)
        victim = members()[n % 2]
        os.kill(victim, signal.SIGKILL)
        while victim in members() or len(members()) < 2:
            time.sleep(0.01)
        time.sleep(0.15)
    is_done.set()
    for t in threads:
        t.join()
    server.terminate()
    print(json.dumps({"kills": o.kills, **counts, "exit": server.wait(60)}))
    raise SystemExit(counts["lost"] + counts["wrong"])


if __name__ == "__main__":
    main()

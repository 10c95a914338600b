#!/usr/bin/env python3
"""What it saves to reduce gradients while the rest of the backward pass is computed: two workers on
machines of their own (network namespaces, so as root), joined by a link of a given speed.

    cargo build --release -p talweg --bins --example digits
    python3 scripts/overlap.py target/release

A perceptron of eight layers is trained with gradients reduced in buckets of 1 MiB, and all at once
after the backward pass; both must end with the same bits.
"""
import argparse
import os
import re
import subprocess
import time

import campaign


def run(folder, network, bucket, o):
    words = [f"{folder}/talweg", "launch", "--workers", "2", "--progress", "0", *network.args(),
             f"{folder}/examples/digits"]
    env = dict(os.environ, STEPS=str(o.steps), LAYERS=str(o.layers), WIDTH=str(o.width), TALWEG_THREADS="1",
               TALWEG_BUCKET=str(bucket))
    job = subprocess.Popen(network.command(words), env=env, text=True, stdout=subprocess.PIPE)
    began, ended, weights = None, None, set()
    for line in job.stdout:
        if "epoch 1:" in line:
            began = time.monotonic()
        if re.search(r"step \d+, loss", line) and ended is None:
            ended = time.monotonic()
        if found := re.search(r"weights (\w+)", line):
            weights.add(found[1])
    if job.wait() != 0 or len(weights) != 1:
        raise SystemExit(f"the job failed, or its workers differ: {weights}")
    return (ended - began) / o.steps * 1e3, weights.pop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the talweg program is: target/release")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rate", default="2gbit", help="speed of the link, in tc's words")
    parser.add_argument("--rounds", type=int, default=2)
    o = parser.parse_args()
    network = campaign.Network()
    try:
        for i in range(1, 3):
            ns, device = f"{campaign.PREFIX}n{i}", f"{campaign.PREFIX}a{i}"
            subprocess.run(["ip", "netns", "exec", ns, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
                            o.rate, "burst", "256kb", "latency", "50ms"], check=True)
        best = {}
        for _ in range(o.rounds):
            for name, bucket in [("in buckets", 1 << 20), ("at once", 1 << 40)]:
                ms, weights = run(o.folder, network, bucket, o)
                print(f"{name}: {ms:.1f} ms a step, weights {weights}", flush=True)
                best.setdefault(name, []).append((ms, weights))
        if len({w for runs in best.values() for _, w in runs}) != 1:
            raise SystemExit("the weights differ")
        ms = {name: min(runs)[0] for name, runs in best.items()}
        print(f"{ms['at once'] / ms['in buckets']:.2f} times as fast in buckets, the same bits")
    finally:
        network.down()


main()

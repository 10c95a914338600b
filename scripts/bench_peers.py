"""Talweg and its peers in one run on one machine: writes the JSON lines and the tables of docs/benchmarks.md.

    python3 scripts/bench_peers.py --harness PATH/run.py --talweg target/release/talweg --out results

`run.py` is the peers' harness (PyTorch, JAX, TensorFlow, ONNX Runtime, Candle, Burn), which installs and
builds what is missing under $BENCH_DIR; each workload of each peer is a process of its own. `--rounds N`
goes N times over everything, peers and Talweg taking turns, and each one's time is the median of its N
processes: one slow process decides nothing, for nobody. Written are OUT.jsonl (every measurement) and
OUT.md: times with the ratio of the best peer's to ours, how near we come to the machine's peaks, and peak
memory beside PyTorch's (in brackets: above that of the smallest model, which is the libraries').
`--table OUT.jsonl` only writes the tables again.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

# Workloads by name: what they are, the ratio that is the goal, and the peers that came near the best time
# in a full run of all of them. The others would only make the run longer.
DENSE = ["torch", "jax", "tensorflow", "onnxruntime", "gemm", "faer"]
SMALL = ["torch", "jax", "burn-flex"]
WIDE = ["torch", "torch.compile", "jax"]
INFER = ["onnxruntime", "candle", "burn-flex"]
WORKLOADS = {
    "matmul_256": ("matmul 256", 1.0, DENSE),
    "matmul_1024": ("matmul 1024", 1.0, DENSE),
    "matmul_2048": ("matmul 2048", 1.0, DENSE),
    "matmul_64x4096x4096": ("matmul 64×4096×4096", 1.0, DENSE),
    "mlp100_adagrad": ("MLP 784-100-10, batch 128, Adagrad", 1.2, SMALL),
    "mlp100_adam": ("MLP 784-100-10, batch 128, Adam", 1.2, SMALL),
    "mlp1024_adagrad": ("MLP 784-1024-1024-10, batch 128, Adagrad", 1.05, WIDE),
    "mlp1024_adam": ("MLP 784-1024-1024-10, batch 128, Adam", 1.05, WIDE),
    "tiny_mlp": ("MLP 4-8-2, batch 1 (dispatch)", 3.0, ["torch", "jax", "candle"]),
    "lenet": ("LeNet 28×28, batch 64", 1.0, ["torch", "tensorflow"]),
    "resnet18_cifar": ("ResNet-18 on 32×32, batch 32", 1.0, ["torch"]),
    "lstm": ("LSTM 256, length 64, batch 32", 1.1, ["torch"]),
    "gpt_train": ("small GPT, batch 8 × 256", 1.15, ["torch", "tensorflow"]),
    "fuse_fwd": ("gelu → layer norm → softmax, forward", 1.3, WIDE),
    "fuse_fwdbwd": ("the same, forward and backward", 1.3, ["torch"]),
    "infer_mlp100_b1": ("MLP 100, one input", 1.1, INFER),
    "infer_mlp1024_b1": ("MLP 1024, one input", 1.1, INFER),
    "infer_resnet18_224": ("ResNet-18 at 224×224, one picture", 1.1, ["torch.compile", "onnxruntime"]),
    "gpt_decode": ("small GPT writing, a token", 1.1, ["jax", "candle", "burn-flex"]),
}
TRAINING = [
    "mlp100_adagrad", "mlp100_adam", "mlp1024_adagrad", "mlp1024_adam", "lenet", "resnet18_cifar", "lstm", "gpt_train",
]


def measure(args, path):
    """Runs the harness in rounds, once a round for each group of workloads with the same peers."""
    known = set(args.peers.split(",")) if args.peers else None
    groups = {}
    for name, (_, _, peers) in WORKLOADS.items():
        if not args.only or any(o in name for o in args.only):
            chosen = tuple(p for p in peers if known is None or p in known)
            groups.setdefault(chosen, []).append(name)
    env = dict(os.environ, BENCH_REPEATS=str(args.repeats), BENCH_LATENCY_S="1")
    for _, (peers, names) in itertools.product(range(args.rounds), groups.items()):
        # The harness chooses by parts of names: `matmul_2048` is part of no other.
        command = [sys.executable, args.harness, "--rounds", "1", "--threads", str(args.threads)]
        command += ["--wait", str(args.wait), "--out", str(path), "--peers", ",".join(peers)]
        command += ["--extern", f"talweg={Path(args.talweg).resolve()} bench {{workload}}"]
        for n in names:
            command += ["--only", n]
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)


def middle(rows):
    """For each workload and peer the line of its median process; of two in the middle, the faster one's."""
    rounds = {}
    for r in rows:
        if r.get("ms") is not None:
            rounds.setdefault((r["workload"], r["peer"]), []).append(r)
    return {k: sorted(lines, key=lambda r: r["ms"])[(len(lines) - 1) // 2] for k, lines in rounds.items()}


def number(x):
    return f"{x:.4f}" if x < 0.1 else f"{x:.3f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def tables(rows, out):
    lines = middle(rows)
    shown = [w for w in WORKLOADS if (w, "talweg") in lines]

    def row(cells):
        print("| " + " | ".join(cells) + " |", file=out)

    def memory(w, peer):
        """Peak resident memory, and how much of it is above the smallest model's: not the libraries."""
        mb = {v: lines[v, peer]["rss_mb"] for v in (w, "tiny_mlp") if (v, peer) in lines}
        above = f" (+{mb[w] - mb['tiny_mlp']:.0f})" if len(mb) == 2 and w in TRAINING else ""
        return f"{mb[w]:.0f}{above}" if w in mb else ""

    row(["workload", "best peer", "ms", "Talweg, ms", "ratio", "goal", "of the peak", "PyTorch, MB", "Talweg, MB"])
    print("|---|---|" + "---:|" * 7, file=out)
    for w in shown:
        ours = lines[w, "talweg"]
        peers = [(lines[w, p]["ms"], p) for p in WORKLOADS[w][2] if (w, p) in lines]
        ms, name = min(peers) if peers else (None, "")
        roof = ours.get("roofline") or {}
        near = f"{roof['percent']:.0f} % of {roof['of']}" if roof else ""
        row([
            WORKLOADS[w][0], name, number(ms) if ms else "", number(ours["ms"]), f"{ms / ours['ms']:.2f}" if ms else "",
            str(WORKLOADS[w][1]), near, memory(w, "torch"), memory(w, "talweg"),
        ])
    wrong = [w for w in shown if (w, "torch") in lines and differs(lines[w, "torch"], lines[w, "talweg"])]
    print(f"\nResults differ from PyTorch's by over 0.003 %: {', '.join(wrong) or 'none'}.", file=out)
    peaks = [lines[w, "talweg"]["roofline"] for w in shown if lines[w, "talweg"].get("roofline")]
    if peaks:
        print(f"Peak measured in the same processes: {max(p['peak_gflops'] for p in peaks):.0f} GFLOP/s.", file=out)


def differs(a, b):
    a, b = a.get("check"), b.get("check")
    return a is not None and b is not None and abs(a - b) > 3e-5 * abs(a)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--harness", help="the peers' run.py")
    ap.add_argument("--talweg", default="target/release/talweg", help="the binary")
    ap.add_argument("--out", default="bench-results", help="results go to OUT.jsonl and OUT.md")
    ap.add_argument("--only", action="append", default=[], help="workloads whose name contains this (repeatable)")
    ap.add_argument("--peers", help="comma-separated; default: all that are installed or can be")
    ap.add_argument("--rounds", type=int, default=1, help="times over everything; the median process of each counts")
    ap.add_argument("--repeats", type=int, default=5)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--wait", type=float, default=5, help="seconds to wait for an idle machine before each process")
    ap.add_argument("--table", metavar="JSONL", help="only write the tables of an earlier run to standard output")
    args = ap.parse_args()
    if args.table:
        with open(args.table) as f:
            tables([json.loads(line) for line in f], sys.stdout)
        return
    if args.rounds < 1:
        ap.error(f"--rounds must be at least 1, not {args.rounds}")
    if not args.harness:
        ap.error("--harness is needed: the path of the peers' run.py")
    path = Path(args.out + ".jsonl").resolve()
    if path.exists():
        path.unlink()
    measure(args, path)
    with open(path) as f, open(args.out + ".md", "w") as md:
        tables([json.loads(line) for line in f], md)
    print(Path(args.out + ".md").read_text())


if __name__ == "__main__":
    main()

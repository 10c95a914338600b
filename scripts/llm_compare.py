"""Greedy tokens, log probabilities, perplexity and speed beside llama.cpp, on one GGUF file in one run.

Needs xllamacpp (llama.cpp) and a built `talweg`:
    python scripts/llm_compare.py MODEL.gguf --talweg target/release/talweg --tokens 64
Where tokens differ, the gap between both tokens' log probabilities in llama.cpp is printed: rounding decides ties.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time

import numpy as np
from llamacpp import Llama

PROMPTS = [
    "The capital of France is", "Once upon a time there was", "The three laws of thermodynamics are",
    "def fibonacci(n):", "Water boils at", "In 1969, astronauts", "The best way to learn a language is",
    "My favorite recipe for bread begins with", "A prime number is", "The Great Wall of China",
    "To be, or not to be,", "Photosynthesis is the process by which", "The stock market fell because",
    "import numpy as np\n", "Dear Sir or Madam,", "The difference between a virus and a bacterium is",
    "If it rains tomorrow,", "Q: What is 7 times 8?\nA:", "The history of computing began", "Once the machine had stopped,",
    "She opened the letter and", "Neural networks are trained by",
]



def log_softmax(z: np.ndarray) -> np.ndarray:
    z = z.astype(np.float64)
    top = z.max(-1, keepdims=True)
    return z - top - np.log(np.exp(z - top).sum(-1, keepdims=True))


def talweg(command: list[str], model: str, prompts: list[str], tokens: int) -> list[dict]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(prompts, f)
        f.flush()
        args = [*command, "generate", model, "--prompts", f.name, "--tokens", str(tokens), "--temperature", "0", "--ignore-eos"]
        if command[0].endswith("examples/generate"):
            args = [*command, model, f.name, str(tokens)]
        lines = subprocess.run(args, check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def tokens(o: argparse.Namespace, llama: Llama) -> None:
    """Our greedy tokens are given to llama.cpp: every one must be its own choice, or nearly as likely."""
    prompts = PROMPTS[: o.prompts]
    equal, gaps, ties, ranks = 0, [], [], 0
    for prompt, row in zip(prompts, talweg(o.talweg.split(), o.model, prompts, o.tokens)):
        llama.clear()
        z = llama.decode(llama.tokenize(prompt))
        if len(row["tokens"]) > 1:
            z = np.concatenate([z, llama.decode(row["tokens"][:-1], everywhere=True)])
        log_p = log_softmax(z)
        own = log_p[np.arange(len(row["tokens"])), row["tokens"]]
        gaps += list(np.abs(own - np.array(row["logprobs"])))
        lost = log_p.max(-1) - own
        ties += list(lost[lost > 0])
        ranks += int((lost > 0).sum())
        equal += int((lost == 0).all())
        for i in np.nonzero(lost > 0)[0]:
            print(f"{prompt!r}: token {i} is {row['tokens'][i]}, llama.cpp's {int(z[i].argmax())}, by {lost[i]:.5f} nats")
    print(json.dumps({
        "prompts": len(prompts), "tokens": o.tokens, "equal": equal, "other_choices": ranks,
        "other_choice_nats_max": max(ties, default=0.0), "logprob_gap_max": max(gaps), "logprob_gap_mean": float(np.mean(gaps)),
    }))


def perplexity(o: argparse.Namespace, llama: Llama) -> None:
    """Windows without overlap, of which the second halves count, as in llama.cpp's own program."""
    text = open(o.text, encoding="utf8").read()
    ids = llama.tokenize(text, begins=False)
    ids = ids[: o.window * o.windows] if o.windows else ids
    begin = [t for t in llama.tokenize("")][:1]
    losses = []
    for i in range(0, len(ids) - o.window + 1, o.window):
        part = ids[i : i + o.window]
        part[: len(begin)] = begin
        llama.clear()
        log_p = log_softmax(llama.decode(part, everywhere=True))
        losses += [-log_p[j, part[j + 1]] for j in range(o.window // 2, o.window - 1)]
    theirs = float(np.exp(np.mean(losses)))
    args = [*o.talweg.split(), "evaluate", o.model, "--text", o.text, "--length", str(o.window)]
    args += ["--windows", str(o.windows)] if o.windows else []
    said = subprocess.run(args, check=True, capture_output=True, text=True).stdout
    ours = float(said.split()[1])
    print(json.dumps({"model": os.path.basename(o.model), "perplexity": ours, "llama_cpp": theirs,
                      "percent": 100 * (ours / theirs - 1), "tokens": len(ids), "said": said.strip()}))


def speed(o: argparse.Namespace, llama: Llama) -> None:
    """Rounds in turn; the best of each is compared. CPU seconds tell more than time on a machine that others use."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(o.rounds):
        cpu, began = os.times(), time.perf_counter()
        prefill, decode = llama.speed(512, 64)
        spent = os.times()
        theirs.setdefault("prefill", []).append(prefill)
        theirs.setdefault("decode", []).append(decode)
        theirs.setdefault("cpu_s", []).append(spent.user + spent.system - cpu.user - cpu.system)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        args = [*o.talweg.split(), *([] if "examples/" in o.talweg else ["bench-model"]), o.model]
        lines = subprocess.run(args, check=True, capture_output=True, text=True,
                               env={**os.environ, "TALWEG_THREADS": str(o.threads)}).stdout.splitlines()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours.setdefault("cpu_s", []).append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        for row in map(json.loads, lines):
            name = "prefill" if row["what"] == "prefill" else f"decode{row['batch']}"
            ours.setdefault(name, []).append(row["tokens_per_s"])
    best = lambda rows: {k: round(max(v), 1) for k, v in rows.items() if k != "cpu_s"}
    a, b = best(ours), best(theirs)
    print(json.dumps({
        "talweg": a, "llama_cpp": b, "prefill_ratio": round(a["prefill"] / b["prefill"], 2),
        "decode_ratio": round(a["decode1"] / b["decode"], 2), "aggregate_8": round(a["decode8"] / a["decode1"], 2),
        "aggregate_32": round(a["decode32"] / a["decode1"], 2),
    }))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--talweg", default="target/release/talweg", help="the command, or examples/generate or bench")
    parser.add_argument("--what", choices=["tokens", "perplexity", "speed"], nargs="+", default=["tokens", "speed"])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text", help="a text for perplexity")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--windows", type=int, help="windows at most; all of the text if it is not given")
    o = parser.parse_args()
    llama = Llama(o.model, threads=o.threads)
    for what in o.what:
        {"tokens": tokens, "perplexity": perplexity, "speed": speed}[what](o, llama)


main()

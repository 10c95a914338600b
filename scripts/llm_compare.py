"""Greedy tokens, log probabilities and speed beside llama.cpp, on one GGUF file in one run.

Needs xllamacpp (llama.cpp) and a built `talweg`:
    python scripts/llm_compare.py MODEL.gguf --talweg target/release/talweg --tokens 64
Where tokens differ, the gap between both tokens' log probabilities in llama.cpp is printed: rounding decides ties.
"""

import argparse
import json
import subprocess
import tempfile
import time

PROMPTS = [
    "The capital of France is", "Once upon a time there was", "The three laws of thermodynamics are",
    "def fibonacci(n):", "Water boils at", "In 1969, astronauts", "The best way to learn a language is",
    "My favorite recipe for bread begins with", "A prime number is", "The Great Wall of China",
    "To be, or not to be,", "Photosynthesis is the process by which", "The stock market fell because",
    "import numpy as np\n", "Dear Sir or Madam,", "The difference between a virus and a bacterium is",
    "If it rains tomorrow,", "Q: What is 7 times 8?\nA:", "The history of computing began", "Once the machine had stopped,",
    "She opened the letter and", "Neural networks are trained by",
]


def llama_cpp(model: str, prompts: list[str], tokens: int, threads: int) -> tuple[list[dict], float]:
    import xllamacpp as x

    p = x.CommonParams()
    p.model.path = model
    p.n_ctx, p.n_parallel, p.warmup = 2048, 1, False
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    p.sampling.temp = 0.0
    server = x.Server(p)
    out, began = [], time.perf_counter()
    for prompt in prompts:
        answer = server.handle_completions({
            "prompt": prompt, "n_predict": tokens, "temperature": 0.0, "top_k": 1, "n_probs": 10, "ignore_eos": True,
            "return_tokens": True, "cache_prompt": False,
        })
        out.append(json.loads(answer) if isinstance(answer, str) else answer)
    return out, time.perf_counter() - began


def talweg(command: str, model: str, prompts: list[str], tokens: int) -> tuple[list[dict], float]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(prompts, f)
        f.flush()
        args = [command, "generate", model, "--prompts", f.name, "--tokens", str(tokens), "--temperature", "0", "--ignore-eos"]
        lines = subprocess.run(args, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    return rows, max(r["seconds"] for r in rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--talweg", default="talweg")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    prompts = PROMPTS[: o.prompts]
    ours, our_time = talweg(o.talweg, o.model, prompts, o.tokens)
    theirs, their_time = llama_cpp(o.model, prompts, o.tokens, o.threads)
    equal, gaps = 0, []
    for prompt, a, b in zip(prompts, ours, theirs):
        probabilities = b.get("completion_probabilities", [])
        want = b.get("tokens") or [p["id"] for p in probabilities]
        got = a["tokens"]
        at = next((i for i, (x, y) in enumerate(zip(got, want)) if x != y), min(len(got), len(want)))
        gaps += [abs(a["logprobs"][i] - probabilities[i]["logprob"]) for i in range(min(at, len(probabilities)))]
        if at >= o.tokens:
            equal += 1
            continue
        top = {t["id"]: t["logprob"] for t in probabilities[at]["top_logprobs"]} if at < len(probabilities) else {}
        gap = top.get(want[at], float("nan")) - top.get(got[at], float("nan"))
        print(f"{prompt!r}: differs at token {at}; llama.cpp prefers its own by {gap:.4f} nats")
    print(json.dumps({
        "prompts": len(prompts), "equal": equal, "tokens": o.tokens, "logprob_gap_max": max(gaps, default=None),
        "talweg_seconds_together": round(our_time, 2), "llama_cpp_seconds_one_by_one": round(their_time, 2),
    }))


main()

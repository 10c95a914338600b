"""Greedy tokens, log probabilities, perplexity and speed beside llama.cpp, on one GGUF file in one run.

Needs xllamacpp (llama.cpp) and a built `talweg`:
    python scripts/llm_compare.py MODEL.gguf --talweg target/release/talweg --tokens 64
Where tokens differ, a row says by how much each engine prefers its own, and with `--exact FLOATS.gguf` why.
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
# Our likeliest tokens whose log probabilities are compared; roundings of an explained choice, in their usual size.
TOP, SIGMAS = 20, 4.0


def log_softmax(z: np.ndarray) -> np.ndarray:
    z = z.astype(np.float64)
    top = z.max(-1, keepdims=True)
    return z - top - np.log(np.exp(z - top).sum(-1, keepdims=True))


def talweg(o: argparse.Namespace, prompts: list[str]) -> list[dict]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(prompts, f)
        f.flush()
        args = [*o.talweg.split(), "generate", o.model, "--prompts", f.name, "--tokens", str(o.tokens), "--temperature", "0",
                "--ignore-eos", "--logprobs", str(TOP), "--cache-type", o.cache_type]
        lines = subprocess.run(args, check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def forced(llama: Llama, prompts: list[str], rows: list[dict]) -> list[np.ndarray]:
    """llama.cpp's log probabilities at each place of our texts, one token at a time as it generates itself."""
    out = []
    for prompt, row in zip(prompts, rows):
        llama.clear()
        z = [llama.decode(llama.tokenize(prompt))] + [llama.decode([t]) for t in row["tokens"][:-1]]
        out.append(log_softmax(np.concatenate(z)))
    return out


def local_rounding(o: argparse.Namespace, prompt: str, before: list[int], pair: tuple[int, int], exact: float) -> float:
    """The usual size of llama.cpp's rounding of one margin: root mean square over ways of computing it that differ in the
    order of sums and the type of the KV cache alone. The text is read in chunks of several sizes."""
    errors = []
    for flash, cache in ((0, "f16"), (1, "f16"), (0, "f32")):
        llama = Llama(o.model, threads=o.threads, flash=flash, cache=cache)
        ids = llama.tokenize(prompt) + before
        for chunk in (1, 3, 8, len(ids)):
            llama.clear()
            for i in range(0, len(ids), chunk):
                z = llama.decode(ids[i : i + chunk])
            log_p = log_softmax(z)[-1]
            errors.append(log_p[pair[0]] - log_p[pair[1]] - exact)
    return float(np.sqrt(np.mean(np.square(errors))))


def tokens(o: argparse.Namespace, llama: Llama) -> None:
    """Our greedy tokens are given to llama.cpp: every one must be its own choice, or a tie within rounding.

    With `--exact FILE`, the same weights as floats (`llm_quantize.py`), llama.cpp computes the margin between both tokens
    without rounded activations. What either engine's margin differs from it is its rounding. A choice is explained if
    rounding of the usual size turns the exact margin: the size over all places, or at this one (`local_rounding`), as
    some places are more sensitive than others. Where a rounding is larger than that, the run fails.
    """
    prompts = [PROMPTS[i] for i in o.only] if o.only else PROMPTS[: o.prompts]
    rows = talweg(o, prompts)
    theirs = forced(llama, prompts, rows)
    exact = forced(Llama(o.exact, threads=o.threads, flash=0, cache="f32"), prompts, rows) if o.exact else None
    gaps, others, errors = [], [], {"talweg": [], "llama.cpp": []}
    equal = 0
    for n, (row, log_p) in enumerate(zip(rows, theirs)):
        own, ours = np.array(row["tokens"]), [dict(map(tuple, top)) for top in row["top_logprobs"]]
        gaps += list(np.abs(log_p[np.arange(len(own)), own] - np.array(row["logprobs"])))
        choice = log_p.argmax(-1)
        equal += int((choice == own).all())
        for i in range(len(own)):
            if exact is not None:
                a, b = (int(t) for t in exact[n][i].argsort()[-2:][::-1])
                margin = exact[n][i, a] - exact[n][i, b]
                errors["llama.cpp"].append(log_p[i, a] - log_p[i, b] - margin)
                if a in ours[i] and b in ours[i]:
                    errors["talweg"].append(ours[i][a] - ours[i][b] - margin)
            if choice[i] != own[i]:
                others.append((n, i, int(own[i]), int(choice[i]), ours[i]))
    size = {k: float(np.sqrt(np.mean(np.square(v)))) for k, v in errors.items() if v}
    most = {k: float(np.abs(v).max()) for k, v in errors.items() if v}
    first = {}
    for n, i, a, b, ours in others:
        first.setdefault(n, i)
    bad = 0
    if others:
        print("| prompt | token | Talweg | llama.cpp | margin of Talweg | of llama.cpp | exact | rounding of Talweg | of llama.cpp | |")
        print("|---|---:|---|---|---:|---:|---:|---:|---:|---|")
    for n, i, a, b, ours in others:
        if first[n] != i and not o.every:
            continue
        text = lambda t: "`" + repr(llama.piece(t))[1:-1].replace("|", "\\|") + "`"
        # Positive: our token is the likelier one.
        own = ours[a] - ours[b] if b in ours else float("nan")
        other = float(theirs[n][i, a] - theirs[n][i, b])
        cells = [prompts[n].strip(), str(i), text(a), text(b), f"{own:+.4f}", f"{other:+.4f}"]
        if exact is not None:
            true = float(exact[n][i, a] - exact[n][i, b])
            limit = SIGMAS * size["llama.cpp"]
            larger = max(abs(own - true), abs(other - true))
            said = "tie"
            if not larger <= limit:
                local = local_rounding(o, prompts[n], rows[n]["tokens"][:i], (a, b), true)
                is_tie = larger <= SIGMAS * local
                bad += not is_tie
                said = f"{'tie' if is_tie else 'NOT EXPLAINED'}: {local:.3f} is usual here"
            cells += [f"{true:+.4f}", f"{own - true:+.4f}", f"{other - true:+.4f}", said]
        print("| " + " | ".join(cells) + " |")
    print(json.dumps({
        "prompts": len(prompts), "tokens": o.tokens, "equal": equal, "other_choices": len(others),
        "logprob_gap_max": max(gaps), "logprob_gap_mean": float(np.mean(gaps)), "rounding_rms": size, "rounding_max": most,
        "not_explained": bad if exact is not None else None,
    }))
    if bad:
        raise SystemExit(f"{bad} choices are not explained by rounding")


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
        args = [*o.talweg.split(), "bench-model", o.model]
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
    parser.add_argument("--talweg", default="target/release/talweg", help="the command")
    parser.add_argument("--what", choices=["tokens", "perplexity", "speed"], nargs="+", default=["tokens", "speed"])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--exact", help="the same weights as 32-bit floats: explains every other choice, or fails")
    parser.add_argument("--every", action="store_true", help="all other choices, not the first of each prompt alone")
    parser.add_argument("--cache-type", default="f16", choices=["f16", "f32"], help="KV cache of both")
    parser.add_argument("--flash", type=int, default=-1, help="llama.cpp's flash attention: 0 off, 1 on, -1 its own choice")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--only", type=int, nargs="+", help="prompts by their numbers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text", help="a text for perplexity")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--windows", type=int, help="windows at most; all of the text if it is not given")
    o = parser.parse_args()
    llama = Llama(o.model, threads=o.threads, flash=o.flash, cache=o.cache_type)
    for what in o.what:
        {"tokens": tokens, "perplexity": perplexity, "speed": speed}[what](o, llama)


if __name__ == "__main__":
    main()

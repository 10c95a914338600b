"""Fine-tuning beside PEFT: the same adapter learns the same text in both, and the losses are compared; then each reads the
other's adapter, and perplexities are compared.

    python scripts/llm_peft.py target/release/talweg        # needs torch, transformers, peft, tokenizers
"""

import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

ROWS, LENGTH, STEPS, LR = 4, 32, 30, 5e-3
TEXT = ("It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, " * 4)[: ROWS * LENGTH + 1]


def tokenizer(path):
    words = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(path / "tokenizer.json"))
    return made


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def main(talweg):
    folder = Path(tempfile.mkdtemp())
    base, start, ours, text = folder / "base", folder / "start", folder / "ours", folder / "text.txt"
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=128, bos_token_id=None, eos_token_id=None)
    LlamaForCausalLM(config).save_pretrained(base)
    ids = torch.tensor(tokenizer(base).encode(TEXT).ids)
    assert len(ids) == ROWS * LENGTH + 1
    text.write_text(TEXT)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.0, task_type="CAUSAL_LM")
    model = get_peft_model(LlamaForCausalLM.from_pretrained(base), lora)
    model.save_pretrained(start)

    x, y = ids[:-1].reshape(ROWS, LENGTH), ids[1:].reshape(ROWS, LENGTH)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LR, weight_decay=0.0)
    theirs = []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(x).logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        theirs.append(loss.item())

    said = run(talweg, "finetune", base, "--data", text, "--init", start, "--steps", STEPS, "--batch", ROWS, "--length", LENGTH,
               "--lr", LR, "--held-out", 0, "--out", ours)
    losses = {int(s): float(v) for s, v in re.findall(r"step +(\d+) +loss ([\d.]+)", said)}
    print("step   PEFT     Talweg")
    for step, loss in losses.items():
        print(f"{step:4} {theirs[step - 1]:8.4f} {loss:8.4f}")
    worst = max(abs(theirs[s - 1] - v) for s, v in losses.items())

    def perplexity(adapter):
        loaded = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(base), adapter)
        with torch.no_grad():
            logprobs = loaded(ids[None, :LENGTH]).logits[0].log_softmax(-1)
        own = logprobs[torch.arange(LENGTH - 1), ids[1:LENGTH]]
        return math.exp(-own[LENGTH // 2:].mean().item())

    model.save_pretrained(folder / "peft")
    (folder / "first.txt").write_text(TEXT[:LENGTH])
    results = {"loss": worst}
    for adapter in (ours, folder / "peft"):
        said = run(talweg, "evaluate", base, "--text", folder / "first.txt", "--length", LENGTH, "--lora", adapter)
        own = float(re.search(r"perplexity ([\d.]+)", said)[1])
        results[adapter.name] = abs(own / perplexity(adapter) - 1)
    merged = folder / "merged"
    run(talweg, "merge", base, "--lora", ours, "--out", merged)
    both = [run(talweg, "evaluate", *m, "--text", folder / "first.txt", "--length", LENGTH) for m in ([merged], [base, "--lora", ours])]
    results["merged"] = abs(float(re.search(r"perplexity ([\d.]+)", both[0])[1]) / float(re.search(r"perplexity ([\d.]+)", both[1])[1]) - 1)
    print(json.dumps(results))
    sys.exit(not (worst < 2e-3 and all(v < 1e-3 for k, v in results.items() if k != "loss")))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Fine-tuning beside PEFT: the same adapter learns the same text in both, and the losses are compared; then each reads the
other's adapter, and perplexities are compared.

    python scripts/llm_peft.py target/release/talweg        # needs torch, transformers, peft, tokenizers
    python scripts/llm_peft.py target/release/talweg --base FOLDER --text FILE --rows 2 --length 64 --steps 10 --lr 1e-3
    python scripts/llm_peft.py target/release/talweg --gguf MODEL.gguf --text FILE --rows 2 --length 64 --steps 10 --lr 1e-3

Without a folder, the model is a small Llama with random weights. A GGUF file is dequantized by transformers (with PyPI's
`gguf`). Then Talweg also learns the file itself, whose weights stay quantized (QLoRA), and the memory of full
fine-tuning, LoRA and QLoRA is measured, with the perplexity of a part of the text that is held out.
"""

import argparse
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
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, " * 40


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


def random_llama(folder):
    """A small Llama, whose tokens are bytes."""
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=128, bos_token_id=None, eos_token_id=None)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer(folder)
    return folder


def dequantized(path, folder):
    """A GGUF file as a folder of 32-bit floats."""
    path = Path(path)
    read = LlamaForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    # What was read from GGUF cannot be saved as it is.
    config = LlamaConfig(**{k: v for k, v in read.config.to_dict().items() if k != "quantization_config"})
    floats = LlamaForCausalLM(config)
    floats.load_state_dict(read.state_dict())
    floats.save_pretrained(folder)
    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)
    return folder


def cut(made, text, tokens):
    """The beginning of a text that has so many tokens, and they."""
    for end in range(tokens, len(text)):
        ids = made.encode(text[:end], add_special_tokens=False).ids
        if len(ids) == tokens:
            return text[:end], ids
    sys.exit(f"no beginning of the text has {tokens} tokens")


def main(o):
    talweg, rows, length, steps, lr = o.talweg, o.rows, o.length, o.steps, o.lr
    folder = Path(tempfile.mkdtemp())
    base, start, ours, text = folder / "base", folder / "start", folder / "ours", folder / "text.txt"
    base = Path(o.base) if o.base else dequantized(o.gguf, base) if o.gguf else random_llama(base)
    torch.manual_seed(0)
    made = Tokenizer.from_file(str(base / "tokenizer.json"))
    whole = Path(o.text).read_text() if o.text else TEXT
    own_text, ids = cut(made, whole, rows * length + 1)
    ids = torch.tensor(ids)
    text.write_text(own_text)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.0, task_type="CAUSAL_LM")
    model = get_peft_model(LlamaForCausalLM.from_pretrained(base), lora)
    model.save_pretrained(start)

    x, y = ids[:-1].reshape(rows, length), ids[1:].reshape(rows, length)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    theirs = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(x).logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        theirs.append(loss.item())

    said = run(talweg, "finetune", base, "--data", text, "--init", start, "--steps", steps, "--batch", rows, "--length", length,
               "--lr", lr, "--held-out", 0, "--every", 1, "--out", ours)
    read = lambda said: {int(s): float(v) for s, v in re.findall(r"step +(\d+) +loss ([\d.]+)", said)}
    losses, quantized = read(said), {}
    if o.gguf:
        quantized = read(run(talweg, "finetune", o.gguf, "--data", text, "--init", start, "--steps", steps, "--batch", rows,
                             "--length", length, "--lr", lr, "--held-out", 0, "--every", 1, "--out", folder / "quantized"))
    print("step   PEFT     Talweg" + ("   QLoRA" if quantized else ""))
    for step, loss in losses.items():
        print(f"{step:4} {theirs[step - 1]:8.4f} {loss:8.4f}" + (f" {quantized[step]:8.4f}" if quantized else ""))
    worst = max(abs(theirs[s - 1] - v) for s, v in losses.items())

    def perplexity(adapter):
        loaded = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(base), adapter)
        with torch.no_grad():
            logprobs = loaded(ids[None, :length]).logits[0].log_softmax(-1)
        own = logprobs[torch.arange(length - 1), ids[1:length]]
        return math.exp(-own[length // 2:].mean().item())

    model.save_pretrained(folder / "peft")
    (folder / "first.txt").write_text(cut(made, whole, length)[0])
    results = {"loss": worst}
    if quantized:
        print(f"QLoRA beside PEFT on the dequantized weights: {max(abs(theirs[s - 1] - v) for s, v in quantized.items()):.1e}")
    for adapter in (ours, folder / "peft"):
        said = run(talweg, "evaluate", base, "--text", folder / "first.txt", "--length", length, "--lora", adapter)
        own = float(re.search(r"perplexity ([\d.]+)", said)[1])
        results[adapter.name] = abs(own / perplexity(adapter) - 1)
    merged = folder / "merged"
    run(talweg, "merge", base, "--lora", ours, "--out", merged)
    both = [run(talweg, "evaluate", *m, "--text", folder / "first.txt", "--length", length) for m in ([merged], [base, "--lora", ours])]
    results["merged"] = abs(float(re.search(r"perplexity ([\d.]+)", both[0])[1]) / float(re.search(r"perplexity ([\d.]+)", both[1])[1]) - 1)
    print(json.dumps(results))
    if o.gguf and o.text:
        memory(o, base, folder)
    sys.exit(not (worst < 2e-3 and all(v < 1e-3 for k, v in results.items() if k != "loss")))


def memory(o, base, folder):
    """Held-out perplexity and memory of full fine-tuning, LoRA and QLoRA with the same sequences."""
    print("| | held-out perplexity before | after | weights MB | learned with gradients and moments MB | peak MB |\n|---|---:|---:|---:|---:|---:|")
    text = folder / "long.txt"
    text.write_text(Path(o.text).read_text()[: o.letters])
    same = ["--data", text, "--steps", o.learn, "--batch", o.rows, "--length", o.length]
    for name, model, options in [
        ("every weight, 32-bit floats", base, ["--full"]), ("LoRA, 32-bit floats", base, ["--lora", 8]),
        ("QLoRA", o.gguf, ["--lora", 8]), ("QLoRA with `--checkpoint`", o.gguf, ["--lora", 8, "--checkpoint"]),
    ]:
        said = run(o.talweg, "finetune", model, *same, *options, "--out", folder / "out")
        tested = re.search(r"perplexity ([\d.]+) before, ([\d.]+) after", said)
        used = re.search(r"weights ([\d.]+) MB, .* moments ([\d.]+) MB, (\d+) MB", said)
        print("| " + " | ".join([name, *tested.groups(), *used.groups()]) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talweg", help="the command")
    parser.add_argument("--base", help="a folder with a Llama")
    parser.add_argument("--gguf", help="a GGUF file with a Llama")
    parser.add_argument("--text", help="a text to learn")
    parser.add_argument("--learn", type=int, default=30, help="steps of the table of memory")
    parser.add_argument("--letters", type=int, default=40_000, help="letters of the text that the table's runs get")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--lr", type=float, default=5e-3)
    main(parser.parse_args())

"""Language models from Python: a small random one, written here as a GGUF file."""

import json
import re
import struct

import pytest

import talweg as tw

HIDDEN, FFN, HEADS, KV = 32, 64, 4, 2


def _text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def _write(path, length=64):
    """A Llama of two layers over bytes, with weights that are the same every time."""
    plain = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 1000))
    words = [chr(b) if b in plain else chr(next(others)) for b in range(256)] + ["<|im_end|>"]
    entries = [
        ("general.architecture", 8, _text("llama")),
        *((f"llama.{k}", 4, struct.pack("<I", v)) for k, v in [
            ("block_count", 2), ("embedding_length", HIDDEN), ("feed_forward_length", FFN), ("context_length", length),
            ("attention.head_count", HEADS), ("attention.head_count_kv", KV)]),
        ("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
        ("tokenizer.ggml.model", 8, _text("gpt2")),
        ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(words)) + b"".join(map(_text, words))),
        ("tokenizer.ggml.merges", 9, struct.pack("<IQ", 8, 0)),
        ("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(words)) + struct.pack(f"<{len(words)}i", *[1] * 256, 3)),
        ("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 256)),
        ("tokenizer.chat_template", 8, _text("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}")),
    ]
    width = HIDDEN // HEADS * KV
    tensors = [("token_embd", len(words), HIDDEN), ("output", len(words), HIDDEN), ("output_norm", 0, HIDDEN)]
    for i in range(2):
        tensors += [(f"blk.{i}.{n}", rows, columns) for n, rows, columns in [
            ("attn_norm", 0, HIDDEN), ("attn_q", HIDDEN, HIDDEN), ("attn_k", width, HIDDEN), ("attn_v", width, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN), ("ffn_norm", 0, HIDDEN), ("ffn_gate", FFN, HIDDEN), ("ffn_up", FFN, HIDDEN),
            ("ffn_down", HIDDEN, FFN)]]
    infos, data, state = b"", b"", 12345
    for name, rows, columns in tensors:
        values = []
        for _ in range(max(rows, 1) * columns):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            values.append(1.0 if rows == 0 else ((state >> 40) / 2**23 - 1) * 2 / columns**0.5)
        dims = (columns,) if rows == 0 else (columns, rows)
        infos += _text(name + ".weight") + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    head += b"".join(_text(k) + struct.pack("<I", kind) + v for k, kind, v in entries) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("llm") / "tiny.gguf"
    _write(path)
    return tw.llm.load(path, sequences=4)


def test_generates_whole_and_in_parts(model):
    assert model.name == "tiny" and model.length_max == 64 and model.eos == [256]
    whole = model.generate("hello", max_tokens=8, temperature=0, ignore_eos=True, logprobs=2)
    assert whole.finish_reason == "length" and len(whole.tokens) == 8
    assert whole.usage["prompt_tokens"] == 5 and whole.usage["completion_tokens"] == 8
    assert all(top[0][1] == pytest.approx(own) for top, own in zip(whole.top_logprobs, whole.logprobs))
    stream = model.generate("hello", stream=True, max_tokens=8, temperature=0, ignore_eos=True)
    assert "".join(stream) == whole and stream.tokens == whole.tokens
    assert model.generate(["hello", "other"], max_tokens=8, temperature=0, ignore_eos=True)[0] == whole


def test_seeds_decide_what_is_drawn(model):
    drawn = [model.generate("a", max_tokens=12, seed=s, ignore_eos=True).tokens for s in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_chat_uses_the_template(model):
    assert model.chat_prompt([{"role": "user", "content": "hi"}]) == "user: hi\n"
    assert model.chat([{"role": "user", "content": "hi"}], max_tokens=2, temperature=0).usage["prompt_tokens"] == 9


def test_evaluates_texts(model):
    scores = model.logprobs("hello")
    assert len(scores) == 4 and all(s < 0 for s in scores)
    assert model.perplexity("the same again and again " * 4, length=16) > 1
    assert sum(x * x for x in model.embed("hello")) == pytest.approx(1, abs=1e-5)


def test_what_cannot_be_is_an_error(model, tmp_path):
    with pytest.raises(ValueError, match="at most 63 fit"):
        model.generate([1] * 100)
    with pytest.raises(ValueError, match="top_p"):
        model.generate("a", top_p=3.0)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(Exception, match="x.gguf"):
        tw.llm.load(tmp_path / "x.gguf")


def test_texts_have_forms(model):
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    assert json.loads(model.generate("x", max_tokens=40, json_schema=schema, seed=1))["a"] in (1, 2)
    assert re.fullmatch("[ab]{3}", model.generate("x", max_tokens=9, regex="[ab]{3}"))
    assert model.generate("x", max_tokens=9, choice=["yes", "no"]) in ("yes", "no")
    assert set(model.generate("x", max_tokens=9, grammar='root ::= "z"{2,4}')) == {"z"}
    with pytest.raises(ValueError, match="one constraint only"):
        model.generate("x", regex="a", choice=["b"])
    with pytest.raises(ValueError, match="constraint"):
        model.generate("x", regex="(")
    free = model.generate("x", max_tokens=8, temperature=0, ignore_eos=True)
    bad = model.generate("x", max_tokens=8, temperature=0, ignore_eos=True, allowed_token_ids=[97, 98], bad_words=["a"])
    assert set(bad) == {"b"} and free != bad


def test_beams(model):
    greedy = model.generate("x", max_tokens=5, temperature=0, ignore_eos=True)
    assert model.beam_search("x", width=1, max_tokens=5, ignore_eos=True)[0].tokens == greedy.tokens
    found = model.beam_search("x", width=3, max_tokens=5, ignore_eos=True)
    assert len(found) == 3 and found[0].score >= found[1].score >= found[2].score
    assert found[0].logprob >= sum(greedy.logprobs) - 1e-4


def test_draft_models_change_nothing(model, tmp_path):
    path = tmp_path / "tiny.gguf"
    _write(path)
    drafted = tw.llm.load(path, sequences=2, draft_model=path)
    options = {"max_tokens": 16, "seed": 3, "ignore_eos": True}
    assert drafted.generate("hello", draft=4, **options) == model.generate("hello", **options)


def test_an_adapter_and_every_weight_learn_a_text(tmp_path):
    tw.manual_seed(0)
    _write(tmp_path / "tiny.gguf")
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 20)
    run = tw.llm.Finetune(tmp_path / "tiny.gguf", tmp_path / "text.txt", lora=4, length=32, batch=2, lr=1e-2)
    before, losses = run.perplexity(), [run.step() for _ in range(20)]
    assert losses[-1] < losses[0] and run.perplexity() < before and run.in_order is None
    run.save(tmp_path / "adapter")
    adapted = tw.llm.load(tmp_path / "tiny.gguf", lora=tmp_path / "adapter")
    assert adapted.perplexity("the quick brown fox jumps over the lazy dog. ", 32) < before
    run = tw.llm.Finetune(tmp_path / "tiny.gguf", tmp_path / "text.txt", full=True, length=32, batch=2, lr=3e-3)
    for _ in range(20):
        run.step()
    run.save(tmp_path / "whole")
    assert run.perplexity() < before / 2
    assert (tmp_path / "whole" / "model.safetensors").exists()
    whole = tw.llm.load(tmp_path / "whole")
    assert whole.perplexity("the quick brown fox jumps over the lazy dog. ", 32) < before / 2
    with pytest.raises(ValueError, match="cannot both learn"):
        tw.llm.Finetune(tmp_path / "tiny.gguf", tmp_path / "text.txt", full=True, init=tmp_path / "adapter")


def _encoder(folder, labels):
    """A BERT of one layer over a few words, with a classifier of so many labels if any."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "river", "valley", "line", "cake"]
    layer = "bert.encoder.layer.0."
    linears = [(layer + n, 16, 16) for n in ("attention.self.query", "attention.self.key", "attention.self.value",
                                             "attention.output.dense")]
    linears += [(layer + "intermediate.dense", 24, 16), (layer + "output.dense", 16, 24), ("bert.pooler.dense", 16, 16)]
    linears += [("classifier", labels, 16)] if labels else []
    shapes = {}
    for name, rows, columns in linears:
        shapes |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    for name in ("bert.embeddings", layer + "attention.output", layer + "output"):
        shapes |= {f"{name}.LayerNorm.weight": (16,), f"{name}.LayerNorm.bias": (16,)}
    for name, rows in (("word", len(words)), ("position", 12), ("token_type", 2)):
        shapes[f"bert.embeddings.{name}_embeddings.weight"] = (rows, 16)
    tw.manual_seed(3)
    tw.save({n: tw.randn(*s) for n, s in shapes.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
        "max_position_embeddings": 12, "hidden_act": "gelu"}))
    special = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i in range(4)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "[UNK]"}}))
    return folder


def test_a_cross_encoder_ranks_documents(tmp_path):
    model = tw.llm.CrossEncoder(_encoder(tmp_path, 1))
    documents = ["river line", "cake", "valley valley line"]
    scores = model.predict([("valley", d) for d in documents])
    assert all(0 < s < 1 for s in scores) and len(set(scores)) == 3
    assert model.predict(("valley", "cake")) == pytest.approx(scores[1])
    raw = model.predict([("valley", "cake")], raw=True)[0]
    assert scores[1] == pytest.approx(1 / (1 + 2.718281828459045**-raw))
    best = model.rank("valley", documents, top_k=2, return_documents=True)
    assert [b["score"] for b in best] == sorted(scores, reverse=True)[:2]
    assert all(documents[b["corpus_id"]] == b["text"] for b in best)
    long = "river " * 20
    with pytest.raises(ValueError, match="1 to 12 tokens, not 24"):
        model.predict(("valley", long))
    assert 0 < tw.llm.CrossEncoder(tmp_path, max_length=12).predict(("valley", long)) < 1
    with pytest.raises(ValueError, match=r"use tw\.llm\.CrossEncoder"):
        tw.llm.Encoder(tmp_path)
    with pytest.raises(ValueError, match="max_length must be 1 to 12"):
        tw.llm.CrossEncoder(tmp_path, max_length=13)


def test_an_encoder_without_a_classifier_is_no_cross_encoder(tmp_path):
    with pytest.raises(ValueError, match=r"use tw\.llm\.Encoder"):
        tw.llm.CrossEncoder(_encoder(tmp_path, 0))
    assert len(tw.llm.Encoder(tmp_path).embed("river")) == 16


def test_a_timeout_that_is_no_time_is_an_error(model):
    with pytest.raises(ValueError, match="timeout is -1 s"):
        model.generate("a", timeout=-1.0)

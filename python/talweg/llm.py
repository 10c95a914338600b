"""Language models: GGUF files and Hugging Face's folders, generation, evaluation.

>>> model = tw.llm.load("model.gguf")                              # doctest: +SKIP
>>> print(model.generate("The capital of France is", max_tokens=8)) # doctest: +SKIP
>>> for part in model.chat([{"role": "user", "content": "Hi"}], stream=True): # doctest: +SKIP
...     print(part, end="", flush=True)
"""

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from . import _native

__all__ = ["Beam", "Completion", "CrossEncoder", "Encoder", "Finetune", "LanguageModel", "Stream", "load"]


class Completion(str):
    """A generated text, with how it came about."""

    tokens: list[int]
    logprobs: list[float]
    top_logprobs: list[list[tuple[int, float]]]
    finish_reason: str
    usage: dict[str, int]


class Beam(str):
    """A text that a beam search found."""

    tokens: list[int]
    logprob: float
    score: float
    finish_reason: str


class Stream:
    """The parts of a text as they are generated. Closing it, or leaving its ``with`` block, ends the request."""

    def __init__(self, events: Any) -> None:
        self._events = events
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[list[tuple[int, float]]] = []
        self.finish_reason: str | None = None
        self.usage: dict[str, int] = {}

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while True:
            token, text, logprob, top, reason, (prompt, cached, generated) = next(self._events)
            if token is not None:
                self.tokens.append(token)
                self.logprobs.append(logprob)
                self.top_logprobs.append(top)
            else:
                self.finish_reason = reason
                self.usage = {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": generated}
            if text:
                return str(text)

    def close(self) -> None:
        """Ends the request."""
        self._events.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def result(self) -> Completion:
        """The rest of the text as one; all of it if nothing was read yet."""
        text = Completion("".join(self))
        text.tokens, text.logprobs, text.top_logprobs = self.tokens, self.logprobs, self.top_logprobs
        text.finish_reason, text.usage = self.finish_reason or "abort", self.usage
        return text


Prompt = str | Sequence[int]


def _constraint(json_schema: Any, regex: str | None, choice: Sequence[str] | None, grammar: str | None) -> tuple[str, str] | None:
    given = [name for name, x in [("json_schema", json_schema), ("regex", regex), ("choice", choice), ("grammar", grammar)] if x is not None]
    if len(given) > 1:
        raise ValueError(f"a text can have one constraint only, not {' and '.join(given)}")
    if json_schema is not None:
        # A class of pydantic says its schema itself.
        schema = json_schema.model_json_schema() if hasattr(json_schema, "model_json_schema") else json_schema
        return "json", schema if isinstance(schema, str) else json.dumps(schema)
    if regex is not None:
        return "regex", regex
    if choice is not None:
        return "choice", json.dumps(list(choice))
    return None if grammar is None else ("grammar", grammar)


class LanguageModel:
    """A language model that generates. Requests of several threads, or of one call, run in one batch."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.name: str = native.name
        self.length_max: int = native.length_max
        self.eos: list[int] = native.eos

    def __repr__(self) -> str:
        return f"LanguageModel({self.name!r}, length_max={self.length_max})"

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt, begun as the model expects it."""
        return list(self._native.encode(text))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        return str(self._native.decode(list(tokens)))

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None) -> str:
        """The prompt of a conversation by the model's template."""
        return str(self._native.chat_prompt(json.dumps(list(messages)), None if tools is None else json.dumps(list(tools))))

    def _submit(
        self,
        prompt: Prompt,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        logprobs: int = 0,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        ignore_eos: bool = False,
        min_tokens: int = 0,
        priority: int = 0,
        draft: int = 0,
        timeout: float | None = None,
        json_schema: Any = None,
        regex: str | None = None,
        choice: Sequence[str] | None = None,
        grammar: str | None = None,
        bad_words: Sequence[str] = (),
        allowed_token_ids: Sequence[int] = (),
        skip_special_tokens: bool = True,
    ) -> Stream:
        tokens = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        given = (temperature, top_k, top_p, min_p, repetition_penalty)
        drawn = tuple(default if x is None else x for x, default in zip(given, self._native.sampling))
        seed = secrets.randbits(64) if seed is None else seed % 2**64
        stops = [stop] if isinstance(stop, str) else list(stop)
        penalties = (presence_penalty, frequency_penalty)
        limits = (list((logit_bias or {}).items()), list(allowed_token_ids), list(bad_words))
        constraint = _constraint(json_schema, regex, choice, grammar)
        return Stream(self._native.submit(
            tokens, max_tokens, drawn, penalties, limits, logprobs, seed, stops, list(stop_token_ids),
            (ignore_eos, min_tokens, priority, draft, not skip_special_tokens), timeout, constraint,
        ))

    @overload
    def generate(self, prompt: str, *, stream: Literal[False] = ..., **options: Any) -> Completion: ...
    @overload
    def generate(self, prompt: str, *, stream: Literal[True], **options: Any) -> Stream: ...
    @overload
    def generate(self, prompt: Sequence[Any], *, stream: bool = ..., **options: Any) -> Any: ...

    def generate(self, prompt: Any, *, stream: bool = False, **options: Any) -> Any:
        """Continues a text, or each text of a list in one batch.

        Options: max_tokens, temperature (0 is greedy), top_k, top_p, min_p, repetition_penalty, presence_penalty,
        frequency_penalty, logit_bias, logprobs, seed, stop, stop_token_ids, ignore_eos, min_tokens, priority, draft (tokens
        guessed by the draft model or by prompt lookup), timeout, bad_words, allowed_token_ids, skip_special_tokens.

        One of json_schema (a dict, its text or a class of pydantic), regex, choice (texts) and grammar (Lark or GBNF) says
        what the text must look like.
        """
        is_one = isinstance(prompt, str) or (len(prompt) > 0 and isinstance(prompt[0], int))
        streams = [self._submit(p, **options) for p in ([prompt] if is_one else prompt)]
        results: list[Any] = streams if stream else [s.result() for s in streams]
        return results[0] if is_one else results

    def chat(self, messages: Sequence[Mapping[str, Any]], *, stream: bool = False, tools: Sequence[Any] | None = None,
             **options: Any) -> Any:
        """The answer to a conversation; options are those of :meth:`generate`."""
        return self.generate(self.chat_prompt(messages, tools), stream=stream, **options)

    def beam_search(self, prompt: Prompt, *, width: int = 4, max_tokens: int = 16, length_penalty: float = 1.0,
                    ignore_eos: bool = False) -> list[Beam]:
        """The likeliest texts that a beam of this width finds, the best first, as `transformers` with ``num_beams``."""
        tokens = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        beams = []
        for found, logprob, score, is_ended in self._native.beam_search(tokens, width, max_tokens, length_penalty, ignore_eos):
            beam = Beam(self.decode(found))
            beam.tokens, beam.logprob, beam.score = list(found), logprob, score
            beam.finish_reason = "stop" if is_ended else "length"
            beams.append(beam)
        return beams

    def logprobs(self, text: Prompt) -> list[float]:
        """The log probability of each token after the first."""
        return list(self._native.logprobs(self.encode(text) if isinstance(text, str) else list(text)))

    def perplexity(self, text: Prompt, length: int = 512) -> float:
        """The perplexity of a text in windows of ``length`` tokens, of which the second halves count."""
        return float(self._native.perplexity(self.encode(text) if isinstance(text, str) else list(text), length))

    def embed(self, text: Prompt) -> list[float]:
        """The mean of the last layer over a text, scaled to length one."""
        return list(self._native.embedding(self.encode(text) if isinstance(text, str) else list(text)))


class Encoder:
    """An encoder (BERT, MiniLM, RoBERTa) from a folder with config.json, safetensors and tokenizer.json."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._native = _native.Encoder.load(path)
        if self._native.is_cross_encoder:
            raise ValueError(f"{os.fspath(path)} is a cross-encoder, which embeds no text: use tw.llm.CrossEncoder")
        self.name: str = self._native.name
        self.length_max: int = self._native.length_max

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that begin and end it."""
        return list(self._native.encode(text))

    def embed(self, texts: str | Sequence[str]) -> Any:
        """The embedding of a text, or of each, as sentence-transformers computes it, scaled to length one."""
        rows = self._native.embed([self.encode(t) for t in ([texts] if isinstance(texts, str) else texts)])
        return rows[0] if isinstance(texts, str) else rows


class CrossEncoder:
    """A cross-encoder (BERT, RoBERTa with a classifier of one label) from a folder, after sentence-transformers' class.

    A pair of texts that is longer than the model allows raises an error; with ``max_length`` it is cut instead, the longer text
    first.

    >>> model = tw.llm.CrossEncoder("ms-marco-MiniLM-L6-v2")                      # doctest: +SKIP
    >>> model.rank("What is a talweg?", ["The line of a valley.", "A cake."])     # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike[str], *, max_length: int | None = None) -> None:
        self._native = _native.Encoder.load(path)
        if not self._native.is_cross_encoder:
            raise ValueError(f"{os.fspath(path)} has no classifier, so it scores no pairs: use tw.llm.Encoder")
        self.name: str = self._native.name
        self.length_max: int = self._native.length_max
        if max_length is not None and not 1 <= max_length <= self.length_max:
            raise ValueError(f"max_length must be 1 to {self.length_max}, not {max_length}")
        self.max_length = max_length

    def predict(self, sentences: Sequence[Any], *, raw: bool = False) -> Any:
        """The score of a pair of texts, or of each pair; ``raw`` leaves the activation out."""
        is_one = len(sentences) == 2 and isinstance(sentences[0], str)
        pairs = [(a, b) for a, b in ([sentences] if is_one else sentences)]
        scores = list(self._native.score(pairs, self.max_length, raw))
        return scores[0] if is_one else scores

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None,
             return_documents: bool = False) -> list[dict[str, Any]]:
        """Documents by what they say about a query, the best first: ``corpus_id``, ``score`` and, if asked for, ``text``."""
        scores = self.predict([(query, d) for d in documents])
        order = sorted(range(len(scores)), key=lambda i: -scores[i])[:top_k]
        return [{"corpus_id": i, "score": scores[i], **({"text": documents[i]} if return_documents else {})} for i in order]


class Finetune:
    """Fine-tuning of a GGUF file or folder: an adapter learns, or with ``full`` every weight.

    ``data`` is a file: plain text, or JSON lines with ``text`` or ``messages``; with ``dpo`` (β, usually 0.1), JSON lines with
    ``prompt``, ``chosen`` and ``rejected``. ``init`` is an adapter to go on with. ``scratch`` draws new weights for the
    folder's ``config.json``: pre-training. The seed of new weights is :func:`talweg.manual_seed`'s.

    >>> run = tw.llm.Finetune("model.gguf", "text.txt", lora=16)  # doctest: +SKIP
    >>> losses = [run.step() for _ in range(100)]                 # doctest: +SKIP
    >>> run.perplexity()                                          # doctest: +SKIP
    >>> run.save("adapter")                                       # doctest: +SKIP
    """

    def __init__(self, model: str | os.PathLike[str], data: str | os.PathLike[str], *, lora: int = 16, alpha: float | None = None,
                 targets: Sequence[str] = ("q_proj", "k_proj", "v_proj", "o_proj"), init: str | os.PathLike[str] | None = None,
                 full: bool = False, scratch: bool = False, batch: int = 4, length: int = 128, lr: float | None = None, seed: int = 0,
                 held_out: float = 0.1, dpo: float | None = None, checkpoint: bool = False) -> None:
        if init is not None and (full or scratch):
            raise ValueError("an adapter (init) and every weight (full, scratch) cannot both learn")
        kind = "scratch" if scratch else "full" if full else "lora" if init is None else "adapter"
        rate = {"scratch": 1e-3, "full": 2e-5}.get(kind, 2e-4) if lr is None else lr
        self._native = _native.Finetune(
            (model, data, init), kind, (lora, 2.0 * lora if alpha is None else alpha, list(targets)),
            (batch, length, rate, seed), held_out, dpo, checkpoint,
        )
        self.parameters: int = self._native.parameters
        self.in_order: float | None = None

    def step(self) -> float:
        """One step of AdamW on the next batch; returns its loss. The share of preferences in order is ``in_order``."""
        loss, self.in_order = self._native.step()
        return float(loss)

    def perplexity(self) -> float | None:
        """The perplexity of the held-out text; None if there is less than a sequence of it."""
        return self._native.perplexity()  # type: ignore[no-any-return]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the adapter in PEFT's format, or the whole model as a folder that ``transformers`` reads."""
        self._native.save(folder)


def load(path: str | os.PathLike[str], *, lora: str | os.PathLike[str] | None = None, sequences: int = 32,
         length: int = 0, cache_mb: int = 512, draft_model: str | os.PathLike[str] | None = None) -> LanguageModel:
    """Opens a GGUF file, or a folder with config.json, safetensors and tokenizer.json.

    ``lora`` is an adapter in PEFT's format, ``sequences`` run at once at most, ``length`` limits the tokens of one, and
    ``cache_mb`` is the size of the KV cache. ``draft_model`` is a small model with the same vocabulary that guesses tokens
    ahead where ``draft`` asks for some.
    """
    return LanguageModel(_native.LanguageModel.load(path, lora, sequences, length, cache_mb << 20, draft_model))

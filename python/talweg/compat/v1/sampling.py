"""Candidate sampling: ``nce_loss``, ``sampled_softmax_loss`` and their samplers."""

# mypy: ignore-errors
from __future__ import annotations

import collections
from typing import Any

import numpy as np

from .arrays import concat, expand_dims, gather, reshape, where
from .constants import ones_like, zeros_like
from .graph import Tensor, convert_to_tensor, make
from .maths import cast, log, matmul, multiply, reduce_sum

Candidates = collections.namedtuple("Candidates", ["sampled_candidates", "true_expected_count", "sampled_expected_count"])


def _sampler(probabilities: Any) -> Any:
    def call(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: Any = None, name: str | None = None) -> Any:
        true = convert_to_tensor(true_classes)
        p = probabilities(range_max)
        held: list[Any] = []

        def lower(run: Any, classes: Any) -> list[Any]:
            rng = np.random.Generator(np.random.Philox(key=run._key(held[0])))
            chosen = rng.choice(range_max, num_sampled, p=p) if not unique else None
            tries = num_sampled
            if unique:
                found: dict[int, None] = {}
                tries = 0
                while len(found) < num_sampled:
                    for c in rng.choice(range_max, num_sampled, p=p):
                        tries += 1
                        found.setdefault(int(c))
                        if len(found) == num_sampled:
                            break
                chosen = np.array(list(found))
            expected = -np.expm1(tries * np.log1p(-p)) if unique else tries * p
            return [chosen.astype(np.int64), expected[classes].astype(np.float32), expected[chosen].astype(np.float32)]

        outputs = [("int64", [num_sampled]), ("float32", true.shape), ("float32", [num_sampled])]
        made = make("CandidateSampler", [true], lower, name, outputs=outputs, is_host=True)
        held.append(made[0].op)
        op = made[0].op
        op.attributes.update(seed=seed, graph_seed=op.graph.seed, number=op.id)
        return Candidates(*made)

    return call


def _log_uniform(n: int) -> np.ndarray:
    k = np.arange(n)
    return (np.log(k + 2) - np.log(k + 1)) / np.log(n + 1)


log_uniform_candidate_sampler = _sampler(_log_uniform)
uniform_candidate_sampler = _sampler(lambda n: np.full(n, 1 / n))


def fixed_unigram_candidate_sampler(true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, vocab_file: str = "", distortion: float = 1.0, num_reserved_ids: int = 0, num_shards: int = 1, shard: int = 0, unigrams: Any = (), seed: Any = None, name: str | None = None) -> Any:
    """Classes drawn in proportion to a power of their counts."""
    from .errors import unimplemented

    if vocab_file or num_shards != 1 or not len(unigrams):
        raise unimplemented("fixed_unigram_candidate_sampler: give unigrams=, without a file or shards")
    weights = np.concatenate([np.zeros(num_reserved_ids), np.asarray(unigrams, float) ** distortion])
    return _sampler(lambda n: weights / weights.sum())(true_classes, num_true, num_sampled, unique, range_max, seed, name)


def _logits(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int, sampled_values: Any, subtract_log_q: bool, remove_accidental_hits: bool) -> tuple[Tensor, Tensor]:
    """Logits of the true classes and of the sampled ones, and their labels."""
    if isinstance(weights, (list, tuple)):
        weights = weights[0]
    w, b, x = convert_to_tensor(weights), convert_to_tensor(biases), convert_to_tensor(inputs)
    true = reshape(cast(convert_to_tensor(labels), "int64"), [-1, num_true])
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(true, num_true, num_sampled, True, num_classes)
    sampled, true_count, sampled_count = (convert_to_tensor(v) for v in sampled_values)
    sampled = cast(sampled, "int64")
    true_w = gather(w, true)
    true_logits = reduce_sum(multiply(expand_dims(x, 1), true_w), 2) + gather(b, true)
    sampled_logits = matmul(x, gather(w, sampled), transpose_b=True) + gather(b, sampled)
    if subtract_log_q:
        true_logits = true_logits - log(true_count)
        sampled_logits = sampled_logits - log(sampled_count)
    if remove_accidental_hits:
        hit = _hits(true, sampled)
        sampled_logits = where(hit, zeros_like(sampled_logits) - 3.4e38, sampled_logits)
    out_labels = concat([ones_like(true_logits) / float(num_true), zeros_like(sampled_logits)], 1)
    return concat([true_logits, sampled_logits], 1), out_labels


def _hits(true: Tensor, sampled: Tensor) -> Tensor:
    """Where a sampled class is one of the true ones."""

    def lower(ctx: Any, t: Any, s: Any) -> Any:
        return (t.unsqueeze(2) == s.reshape([1, 1, -1])).any(1)

    return make("ComputeAccidentalHits", [true, sampled], lower, None, "bool", [true.shape.as_list()[0], sampled.shape.as_list()[0]])


def nce_loss(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = False, partition_strategy: str = "mod", name: str | None = "nce_loss") -> Tensor:
    """Noise-contrastive estimation: a loss for each row."""
    from .nn import sigmoid_cross_entropy_with_logits

    logits, y = _logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True, remove_accidental_hits)
    return reduce_sum(sigmoid_cross_entropy_with_logits(labels=y, logits=logits), 1)


def sampled_softmax_loss(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = True, partition_strategy: str = "mod", name: str | None = "sampled_softmax_loss", seed: Any = None) -> Tensor:
    """Cross entropy over the true class and sampled ones: a loss for each row."""
    from .nn import softmax_cross_entropy_with_logits

    logits, y = _logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True, remove_accidental_hits)
    return softmax_cross_entropy_with_logits(labels=y, logits=logits)



"""TensorFlow 1's word2vec: skip-grams with noise-contrastive estimation, on a toy language. Only the import differs."""

import os

import numpy as np

import talweg.compat.v1 as tf

QUICK = bool(os.environ.get("TALWEG_QUICK"))
vocabulary_size, embedding_size, num_sampled, batch_size = 60, 16, 16, 64
rng = np.random.default_rng(0)


def generate_batch():
    """Words of the same group of ten stand beside each other."""
    words = rng.integers(0, vocabulary_size, batch_size)
    return words, (words // 10 * 10 + rng.integers(0, 10, batch_size)).reshape(-1, 1)


graph = tf.Graph()
with graph.as_default():
    train_inputs = tf.placeholder(tf.int32, shape=[batch_size])
    train_labels = tf.placeholder(tf.int32, shape=[batch_size, 1])
    embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
    embed = tf.nn.embedding_lookup(embeddings, train_inputs)
    nce_weights = tf.Variable(tf.truncated_normal([vocabulary_size, embedding_size], stddev=1.0 / embedding_size**0.5))
    nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=nce_weights,
            biases=nce_biases,
            labels=train_labels,
            inputs=embed,
            num_sampled=num_sampled,
            num_classes=vocabulary_size,
        )
    )
    optimizer = tf.train.AdagradOptimizer(0.5).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    normalized = embeddings / norm
    similarity = tf.matmul(normalized, normalized, transpose_b=True)
    init = tf.global_variables_initializer()

with tf.Session(graph=graph) as session:
    init.run()
    average, losses = 0.0, []
    for step in range(200 if QUICK else 4000):
        inputs, labels = generate_batch()
        _, value = session.run([optimizer, loss], feed_dict={train_inputs: inputs, train_labels: labels})
        losses.append(value)
    near = similarity.eval()
group = np.arange(vocabulary_size) // 10
same = group[:, None] == group
print(f"loss {np.mean(losses[:50]):.3f} -> {np.mean(losses[-50:]):.3f}; similarity inside {near[same].mean():.2f}, outside {near[~same].mean():.2f}")
assert np.mean(losses[-50:]) < np.mean(losses[:50])
assert QUICK or near[same].mean() > near[~same].mean() + 0.2

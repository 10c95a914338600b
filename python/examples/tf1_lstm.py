"""TensorFlow 1's recurrent network: dynamic_rnn over variable-length sequences. Only the import differs."""

import os

import numpy as np

import talweg.compat.v1 as tf

QUICK = bool(os.environ.get("TALWEG_QUICK"))
rng = np.random.default_rng(0)


def batch(n):
    """Sequences of numbers; the label says whether their sum is positive."""
    lengths = rng.integers(3, 13, n)
    x = rng.normal(size=(n, lengths.max(), 1)) * (np.arange(lengths.max()) < lengths[:, None])[..., None]
    return x, lengths, (x.sum((1, 2)) > 0).astype(np.int32)


x = tf.placeholder(tf.float32, [None, None, 1])
lengths = tf.placeholder(tf.int32, [None])
labels = tf.placeholder(tf.int32, [None])
cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(16), tf.nn.rnn_cell.GRUCell(16)])
outputs, state = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
logits = tf.layers.dense(state[-1], 2)
loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
step = tf.train.get_or_create_global_step()
rate = tf.train.exponential_decay(0.02, step, 200, 0.5)
optimizer = tf.train.AdamOptimizer(rate)
grads, variables = zip(*optimizer.compute_gradients(loss))
grads, _ = tf.clip_by_global_norm(grads, 1.0)
train = optimizer.apply_gradients(zip(grads, variables), global_step=step)
accuracy, update = tf.metrics.accuracy(labels, tf.argmax(logits, 1, output_type=tf.int32))

with tf.Session() as sess:
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    losses = []
    for i in range(20 if QUICK else 400):
        data = dict(zip((x, lengths, labels), batch(32)))
        losses.append(sess.run([loss, train], data)[0])
    for i in range(5):
        sess.run(update, dict(zip((x, lengths, labels), batch(64))))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, accuracy {sess.run(accuracy):.2f}")
    assert QUICK or sess.run(accuracy) > 0.85

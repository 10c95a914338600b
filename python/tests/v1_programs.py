"""Programs of TensorFlow 1. Each takes the module and returns names and values.

`v1_values.json` holds what TensorFlow 2.21 (`tensorflow.compat.v1`, `tf_keras`) returned for them:
`TF_USE_LEGACY_KERAS=1 python v1_programs.py` writes it where TensorFlow is installed.
"""

import json
import sys
from pathlib import Path

import numpy as np

VALUES = Path(__file__).parent / "v1_values.json"


def fixed(*shape, seed=0, scale=1.0):
    """The same numbers everywhere."""
    n = int(np.prod(shape))
    return (np.sin(np.arange(1, n + 1) * 1.7 + seed) * scale).reshape(shape).astype(np.float32)


def classes(n, k, seed=0):
    return ((np.arange(n) * 7 + seed) % k).astype(np.int64)


def logistic_regression(tf):
    x = tf.placeholder(tf.float32, [None, 20], name="x")
    y_ = tf.placeholder(tf.float32, [None, 5], name="y_")
    w = tf.Variable(tf.zeros([20, 5]))
    b = tf.Variable(tf.zeros([5]))
    y = tf.nn.softmax(tf.matmul(x, w) + b)
    loss = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    hit = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(hit, tf.float32))
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(8):
            n = 16 if i < 7 else 5
            feed = {x: fixed(n, 20, seed=i), y_: np.eye(5)[classes(n, 5, i)]}
            sess.run(step, feed_dict=feed)
            losses.append(sess.run(loss, feed_dict=feed))
        shown = accuracy.eval({x: fixed(9, 20), y_: np.eye(5)[classes(9, 5)]})
    return {"losses": losses, "accuracy": shown, "shape": str(y.shape)}


def deep_mnist(tf):
    x = tf.placeholder(tf.float32, [None, 64])
    y_ = tf.placeholder(tf.float32, [None, 4])
    keep = tf.placeholder(tf.float32)
    image = tf.reshape(x, [-1, 8, 8, 1])

    def weight(*shape, seed=0):
        return tf.Variable(fixed(*shape, seed=seed, scale=0.3))

    h1 = tf.nn.relu(tf.nn.conv2d(image, weight(3, 3, 1, 4), strides=[1, 1, 1, 1], padding="SAME") + tf.Variable(tf.constant(0.1, shape=[4])))
    p1 = tf.nn.max_pool(h1, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    h2 = tf.nn.relu(tf.nn.conv2d(p1, weight(3, 3, 4, 6, seed=1), strides=[1, 1, 1, 1], padding="SAME") + tf.Variable(tf.constant(0.1, shape=[6])))
    p2 = tf.nn.max_pool(h2, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    flat = tf.reshape(p2, [-1, 2 * 2 * 6])
    h3 = tf.nn.dropout(tf.nn.relu(tf.matmul(flat, weight(24, 12, seed=2))), keep)
    y = tf.matmul(h3, weight(12, 4, seed=3)) + tf.Variable(tf.constant(0.1, shape=[4]))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
    step = tf.train.AdamOptimizer(1e-2).minimize(loss)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(6):
            feed = {x: fixed(7, 64, seed=i), y_: np.eye(4)[classes(7, 4, i)], keep: 1.0}
            losses.append(sess.run([step, loss], feed)[1])
    return {"losses": losses, "shapes": [str(t.shape) for t in (h1, p1, h2, p2, flat, y)]}


def optimizers(tf):
    out = {}
    train = tf.train
    makers = {
        "sgd": lambda: train.GradientDescentOptimizer(0.1),
        "momentum": lambda: train.MomentumOptimizer(0.1, 0.9),
        "nesterov": lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        "adagrad": lambda: train.AdagradOptimizer(0.1),
        "adadelta": lambda: train.AdadeltaOptimizer(0.5),
        "rmsprop": lambda: train.RMSPropOptimizer(0.05),
        "rmsprop_full": lambda: train.RMSPropOptimizer(0.05, momentum=0.5, centered=True),
        "adam": lambda: train.AdamOptimizer(0.05),
        "ftrl": lambda: train.FtrlOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
        "proximal_adagrad": lambda: train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.02),
        "proximal_sgd": lambda: train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.05),
    }
    for name, make in makers.items():
        tf.reset_default_graph()
        w = tf.Variable(fixed(3, 2), name="w")
        b = tf.Variable(fixed(2, seed=5), name="b")
        count = tf.train.get_or_create_global_step()
        y = tf.matmul(tf.constant(fixed(4, 3, seed=2)), w) + b
        optimizer = make()
        step = optimizer.minimize(tf.reduce_mean(tf.square(y - 1.0)), global_step=count)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(5):
                sess.run(step)
            out[name] = sess.run(w)
            out[name + "_step"] = sess.run(count)
        out[name + "_variables"] = sorted(v.name for v in tf.global_variables())
        out[name + "_slots"] = sorted(optimizer.get_slot_names())
    return out


def clipped_gradients(tf):
    w = tf.Variable(fixed(3, 2), name="w")
    u = tf.Variable(fixed(2), name="u")
    loss = tf.reduce_sum(tf.square(tf.matmul(tf.constant(fixed(4, 3)), w) * u))
    rate = tf.train.exponential_decay(0.1, tf.train.get_or_create_global_step(), 2, 0.5, staircase=True)
    optimizer = tf.train.GradientDescentOptimizer(rate)
    pairs = optimizer.compute_gradients(loss, [w, u])
    grads, norm = tf.clip_by_global_norm([g for g, _ in pairs], 0.5)
    step = optimizer.apply_gradients(zip(grads, [w, u]), global_step=tf.train.get_global_step())
    each = [tf.clip_by_norm(pairs[0][0], 0.3), tf.clip_by_value(pairs[0][0], -0.1, 0.2), tf.clip_by_norm(w, 0.5, axes=[0])]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run([norm, *grads, *each])
        for _ in range(3):
            sess.run(step)
        return {"before": before, "w": sess.run(w), "u": sess.run(u), "rate": sess.run(rate)}


def embeddings(tf):
    ids = tf.placeholder(tf.int32, [None])
    labels = tf.placeholder(tf.int64, [None, 1])
    table = tf.Variable(fixed(30, 6))
    weights, biases = tf.Variable(fixed(30, 6, seed=3)), tf.Variable(fixed(30, seed=4))
    sampled = (tf.constant([1, 4, 9, 16], tf.int64), tf.constant(fixed(5, 1) ** 2 + 0.1), tf.constant(fixed(4) ** 2 + 0.1))
    rows = tf.nn.embedding_lookup(table, ids)
    nce = tf.reduce_mean(tf.nn.nce_loss(weights=weights, biases=biases, labels=labels, inputs=rows, num_sampled=4, num_classes=30, sampled_values=sampled))
    soft = tf.reduce_mean(tf.nn.sampled_softmax_loss(weights=weights, biases=biases, labels=labels, inputs=rows, num_sampled=4, num_classes=30, sampled_values=sampled))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(nce)
    feed = {ids: [3, 1, 4, 1, 5], labels: [[9], [2], [6], [5], [3]]}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        values = [sess.run([nce, soft, step], feed)[:2] for _ in range(4)]
        return {"values": values, "table": sess.run(table[:6])}


def recurrent(tf):
    out = {}
    makers = {
        "rnn": lambda: tf.nn.rnn_cell.BasicRNNCell(4),
        "lstm": lambda: tf.nn.rnn_cell.BasicLSTMCell(4),
        "gru": lambda: tf.nn.rnn_cell.GRUCell(4),
        "peephole": lambda: tf.nn.rnn_cell.LSTMCell(4, use_peepholes=True, num_proj=3),
        "stack": lambda: tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(4), tf.nn.rnn_cell.BasicLSTMCell(3)]),
    }
    for name, make in makers.items():
        tf.reset_default_graph()
        x = tf.placeholder(tf.float32, [None, None, 3])
        n = tf.placeholder(tf.int32, [None])
        outputs, state = tf.nn.dynamic_rnn(make(), x, sequence_length=n, dtype=tf.float32)
        loss = tf.reduce_sum(tf.square(outputs))
        slopes = tf.gradients(loss, tf.trainable_variables())
        feed = {x: fixed(3, 5, 3), n: [5, 2, 0]}
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i, v in enumerate(tf.trainable_variables()):
                v.load(fixed(*v.get_shape().as_list(), seed=i, scale=0.4), sess)
            out[name + "_outputs"], last = sess.run([outputs, state], feed)
            out[name + "_state"] = flat(last)
            out[name + "_slopes"] = sess.run(slopes, feed)
        out[name + "_names"] = [v.name for v in tf.trainable_variables()]
        out[name + "_shape"] = str(outputs.shape)
    tf.reset_default_graph()
    x = tf.constant(fixed(2, 4, 3))
    with tf.variable_scope("both", initializer=tf.constant_initializer(0.2)):
        cells = [tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(2)]
        pair, _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, sequence_length=[4, 2], dtype=tf.float32)
        listed, last = tf.nn.static_rnn(tf.nn.rnn_cell.BasicRNNCell(2), tf.unstack(x, axis=1), dtype=tf.float32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        out["both"] = list(sess.run(pair))
        out["static"] = sess.run(listed + [last])
    return out


def flat(x):
    return [v for y in x for v in flat(y)] if isinstance(x, (list, tuple)) else [x]


def control_flow(tf):
    w = tf.Variable(1.5)
    n = tf.placeholder(tf.int32, [])
    x = tf.placeholder(tf.float32, [None, 2])
    i, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * w + tf.to_float(i)), [tf.constant(0), tf.constant(1.0)])
    short = tf.while_loop(lambda i: i < 100, lambda i: i + 3, [tf.constant(0)], maximum_iterations=5)
    branch = tf.cond(n > 3, lambda: tf.reduce_sum(x * w), lambda: tf.reduce_mean(x))
    pair = tf.cond(n > 3, lambda: (x, w * 2.0), lambda: (x + 1.0, w * 3.0))
    chosen = tf.case([(n > 6, lambda: tf.constant(1.0)), (n > 3, lambda: tf.constant(2.0))], default=lambda: tf.constant(3.0))
    rows = tf.map_fn(lambda r: tf.reduce_sum(r) * w, x)
    sums = tf.scan(lambda a, r: a * 0.5 + r, x)
    back = tf.scan(lambda a, r: a * 0.5 + r, x, initializer=tf.zeros([2]), reverse=True)
    fold = tf.foldl(lambda a, r: a - r, x)
    foldr = tf.foldr(lambda a, r: a - r, x)
    array = tf.TensorArray(tf.float32, size=n)
    _, array = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, tf.to_float(i) * w)), [0, array])
    total = tf.reduce_sum(array.stack())
    slopes = [tf.gradients(t, w)[0] for t in (y, branch, tf.reduce_sum(rows), total)]
    add = tf.assign_add(w, 1.0)
    with tf.control_dependencies([add]):
        after = tf.identity(w)
    once = tf.cond(n > 3, lambda: tf.assign_add(w, 10.0), lambda: tf.identity(w))
    out = {"none": tf.gradients(n, w) if False else str(tf.gradients(tf.constant(1.0), w))}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for k in (2, 5, 8):
            feed = {n: k, x: fixed(k, 2)}
            out[f"values {k}"] = sess.run([i, y, short, branch, *pair, chosen, rows, sums, back, fold, foldr, total, *slopes], feed)
        out["after"] = [sess.run(after), sess.run(once, {n: 5}), sess.run(once, {n: 1}), sess.run(w)]
    out["shapes"] = [str(t.shape) for t in (y, rows, sums, fold, branch)]
    return out


def batch_norm(tf):
    x = tf.placeholder(tf.float32, [None, 6])
    training = tf.placeholder(tf.bool)
    h = tf.layers.dense(x, 5, activation=tf.nn.relu, kernel_initializer=tf.constant_initializer(fixed(6, 5)))
    h = tf.layers.batch_normalization(h, training=training, momentum=0.9)
    image = tf.reshape(h, [-1, 1, 5, 1])
    c = tf.layers.conv2d(image, 2, [1, 3], padding="same", kernel_initializer=tf.constant_initializer(fixed(1, 3, 1, 2)))
    c = tf.layers.batch_normalization(c, training=training, name="images")
    y = tf.layers.dense(tf.layers.flatten(c), 1, kernel_initializer=tf.constant_initializer(fixed(10, 1)))
    loss = tf.losses.mean_squared_error(tf.ones_like(y), y)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    out = {"losses": []}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(4):
            feed = {x: fixed(8, 6, seed=i), training: True}
            out["losses"].append(sess.run([loss, step], feed)[0])
        out["inference"] = sess.run(y, {x: fixed(3, 6), training: False})
        out["variables"] = [sess.run(v) for v in tf.global_variables()]
    out["names"] = [v.name for v in tf.global_variables()]
    out["trainable"] = [v.name for v in tf.trainable_variables()]
    out["shape"] = [str(c.shape), str(y.shape)]
    return out


def scopes(tf):
    names = []
    with tf.variable_scope("net") as scope:
        with tf.variable_scope("layer"):
            a = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        names.append((a * 2.0).name)
        b = tf.Variable(1.0, name="v")
        names.append(b.name)
    with tf.variable_scope(scope, reuse=True):
        with tf.variable_scope("layer"):
            names.append(tf.get_variable("w").name)
            names.append(str(tf.get_variable("w") is a))
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        names.append(tf.get_variable("new", [3], regularizer=lambda v: tf.nn.l2_loss(v)).name)
        names.append(tf.get_variable("new", [3]).name)
    with tf.name_scope("outer"):
        with tf.name_scope("inner"):
            names.append(tf.constant(1.0, name="c").name)
            names.append(tf.get_variable("free", [1]).name)
            names.append(tf.Variable(0.0, name="bound").name)
        names.append(tf.constant(1.0).name)
        names.append(tf.constant(1.0).name)
    with tf.name_scope("outer"):
        names.append(tf.constant(1.0).name)
    with tf.variable_scope(None, default_name="unnamed"):
        names.append(tf.get_variable("w", [1]).name)
    with tf.variable_scope(None, default_name="unnamed"):
        names.append(tf.get_variable("w", [1]).name)
    names.append(str(len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))))
    names += [v.name for v in tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="net")]
    errors = []
    for reuse, name in ((False, "w"), (True, "missing")):
        try:
            with tf.variable_scope("net/layer", reuse=reuse):
                tf.get_variable(name, [2])
        except ValueError:
            errors.append("ValueError")
    return {"names": names, "errors": errors}


def static_shapes(tf):
    x = tf.placeholder(tf.float32, [None, 6])
    y = tf.placeholder(tf.float32, [None, 3, 2])
    z = tf.placeholder(tf.float32)
    im = tf.placeholder(tf.float32, [None, None, None, 3])
    i = tf.placeholder(tf.int32, [None])
    made = {
        "add": x + tf.zeros([6]),
        "add batch": x + tf.zeros([5, 6]),
        "add column": x + tf.zeros([5, 1]),
        "add unknown": x + z,
        "matmul": tf.matmul(x, tf.zeros([6, 4])),
        "matmul t": tf.matmul(x, x, transpose_a=True),
        "batch matmul": tf.matmul(y, tf.zeros([7, 2, 5])),
        "reshape -1": tf.reshape(x, [-1, 3, 2]),
        "reshape like": tf.reshape(x, tf.shape(y)),
        "reshape stack": tf.reshape(x, tf.stack([tf.shape(x)[0], 2, 3])),
        "reshape list": tf.reshape(y, [tf.shape(y)[0], 6]),
        "reshape flat": tf.reshape(y, [-1]),
        "zeros": tf.zeros([tf.shape(x)[0], 4]),
        "zeros shape": tf.zeros(tf.shape(x)),
        "fill": tf.fill(tf.stack([tf.shape(x)[0], 2]), 1.0),
        "sum 0": tf.reduce_sum(x, 0),
        "sum 1": tf.reduce_sum(y, [1, 2]),
        "sum keep": tf.reduce_sum(y, 1, keepdims=True),
        "sum all": tf.reduce_sum(z),
        "sum unknown": tf.reduce_sum(z, 1),
        "argmax": tf.argmax(x, 1),
        "concat 0": tf.concat([x, x], 0),
        "concat 1": tf.concat([x, tf.zeros([5, 2])], 1),
        "stack": tf.stack([x, x], 1),
        "unstack": tf.unstack(y, axis=1)[0],
        "split": tf.split(x, 3, 1)[1],
        "transpose": tf.transpose(y, [1, 0, 2]),
        "transpose unknown": tf.transpose(z),
        "expand": tf.expand_dims(x, 1),
        "squeeze": tf.squeeze(tf.expand_dims(x, 1), [1]),
        "slice": x[:, 1:4],
        "slice row": x[0],
        "slice new": x[:, tf.newaxis, :],
        "slice open": x[2:],
        "gather": tf.gather(tf.zeros([10, 4]), i),
        "one hot": tf.one_hot(i, 7),
        "tile": tf.tile(x, [1, 2]),
        "pad": tf.pad(x, [[1, 1], [0, 2]]),
        "softmax": tf.nn.softmax(x),
        "conv": tf.nn.conv2d(im, tf.zeros([3, 3, 3, 8]), [1, 2, 2, 1], "SAME"),
        "conv 2": tf.nn.conv2d(tf.zeros([2, 9, 9, 3]), tf.zeros([3, 3, 3, 8]), [1, 2, 2, 1], "VALID"),
        "pool": tf.nn.max_pool(im, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
        "xent": tf.nn.softmax_cross_entropy_with_logits(labels=x, logits=x),
        "sparse": tf.nn.sparse_softmax_cross_entropy_with_logits(labels=i, logits=x),
        "mask": tf.boolean_mask(x, x[:, 0] > 0),
        "where": tf.where(x > 0),
        "select": tf.where(x > 0, x, tf.zeros_like(x)),
        "range": tf.range(tf.shape(x)[0]),
        "range known": tf.range(2, 10, 3),
        "shape": tf.shape(x),
        "shape unknown": tf.shape(z),
        "cond": tf.cond(tf.constant(True), lambda: x, lambda: x * 2.0),
        "topk": tf.nn.top_k(x, 2)[0],
        "tensordot": tf.tensordot(y, tf.zeros([2, 5]), 1),
        "einsum": tf.einsum("bij,jk->bik", y, tf.zeros([2, 5])),
        "cast": tf.cast(i, tf.float32),
        "moments": tf.nn.moments(x, [0])[0],
        "normal": tf.random_normal([tf.shape(x)[0], 3]),
        "sequence mask": tf.sequence_mask(i, 5),
        "with default": tf.placeholder_with_default(tf.zeros([2, 3]), [None, 3]),
    }
    z.set_shape([None, 4])
    made["set_shape"] = z
    errors = []
    wrong = [
        lambda: x + tf.zeros([5]),
        lambda: tf.matmul(x, tf.zeros([5, 2])),
        lambda: tf.concat([x, y], 0),
        lambda: tf.reshape(tf.zeros([6]), [4]),
        lambda: z.set_shape([None, 5]),
        lambda: tf.stack([tf.zeros([2]), tf.zeros([3])]),
        lambda: tf.zeros([2, 3]) + tf.constant(1),
        lambda: tf.constant(1) + 1.5,
        lambda: tf.constant([1.5], tf.int32),
        lambda: tf.reduce_sum(x, 2),
        lambda: tf.assign(tf.Variable(tf.zeros([2])), tf.zeros([3])),
        lambda: tf.sqrt(tf.constant(4)),
    ]
    for f in wrong:
        try:
            f()
            errors.append("none")
        except (TypeError, ValueError) as e:
            errors.append("TypeError" if isinstance(e, TypeError) else "ValueError")
    return {**{k: f"{t.shape} {t.dtype.name}" for k, t in made.items()}, "errors": errors}


def functions(tf):
    x = tf.constant(fixed(2, 3, 4))
    a, b = tf.constant(fixed(3, 4)), tf.constant(fixed(3, 4, seed=9))
    k, c = tf.constant(classes(3, 4).astype(np.int32)), tf.constant([7, -7, 3], tf.int32)
    nn, m = tf.nn, tf.math
    made = {
        "reductions": [tf.reduce_sum(x), tf.reduce_mean(x, [0, 2]), tf.reduce_max(x, 1), tf.reduce_min(x, -1), tf.reduce_prod(x, 2), tf.reduce_logsumexp(x, 1), tf.reduce_any(x > 0.9, 2), tf.reduce_all(x > -0.9, [1, 2])],
        "ints": [c // 2, c % 4, tf.truediv(c, 2), tf.div(c, 2), tf.floordiv(c, 2), tf.reduce_mean(c), tf.cast(tf.constant([-1.7, 1.7]), tf.int32), tf.truncatediv(c, 2)],
        "arg": [tf.argmax(x), tf.argmin(x, 2), tf.argmax(x, 1, output_type=tf.int32)],
        "activations": [nn.relu(a), nn.relu6(a * 10.0), nn.elu(a), nn.selu(a), nn.softplus(a), nn.softsign(a), nn.leaky_relu(a), nn.sigmoid(a), nn.tanh(a), nn.crelu(a), nn.swish(a)],
        "softmaxes": [nn.softmax(x), nn.log_softmax(x, 1), nn.softmax(x, axis=0)],
        "xent": [nn.softmax_cross_entropy_with_logits(labels=nn.softmax(b), logits=a), nn.sparse_softmax_cross_entropy_with_logits(labels=k, logits=a), nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid(b), logits=a), nn.weighted_cross_entropy_with_logits(tf.sigmoid(b), a, 2.5)],
        "norms": [nn.l2_loss(a), nn.l2_normalize(a, 1), nn.local_response_normalization(tf.constant(fixed(1, 2, 2, 6)), 2, 1.5, 0.3, 0.75), tf.norm(a), tf.norm(a, 1, axis=1), *nn.moments(x, [0, 1])],
        "topk": [*nn.top_k(a, 2), nn.in_top_k(a, k, 2), tf.gather(a, [2, 0]), tf.gather(x, [[1, 0]], axis=2), tf.gather_nd(x, [[0, 1], [1, 2]]), tf.gather_nd(x, [[0, 1, 2]])],
        "arrays": [tf.one_hot(k, 4), tf.one_hot(k, 3, 5.0, -1.0, axis=0), tf.concat([a, b], 1), tf.stack([a, b], 2), tf.tile(a, [2, 1]), tf.transpose(x, [2, 0, 1]), tf.reverse(a, [1]), tf.pad(a, [[1, 0], [2, 1]]), tf.pad(a, [[1, 1], [2, 1]], "REFLECT"), tf.pad(a, [[1, 1], [2, 1]], "SYMMETRIC"), tf.squeeze(tf.expand_dims(a, 1)), *tf.split(a, [1, 3], 1), *tf.split(a, 2, 1), tf.slice(x, [0, 1, 1], [2, 2, -1]), tf.reverse_sequence(x, [3, 2], seq_axis=1, batch_axis=0)],
        "slices": [x[1], x[:, ::2], x[..., -1], x[0, 1:, tf.newaxis], x[:, :, ::-1], x[tf.constant(1)], a[-1, -2]],
        "where": [tf.where(a > 0), tf.where(a > 0, a, b), tf.where(tf.constant([True, False, True]), a, b), tf.boolean_mask(a, a > 0), tf.boolean_mask(a, [True, False, True]), *tf.unique(tf.constant([3, 1, 3, 2, 1]))],
        "products": [tf.matmul(a, b, transpose_b=True), tf.matmul(a, b, transpose_a=True), tf.tensordot(x, a, [[1, 2], [0, 1]]), tf.tensordot(a, tf.transpose(b), 1), tf.einsum("bij,ij->bi", x, a), nn.xw_plus_b(a, tf.transpose(b), tf.constant([1.0, 2.0, 3.0])), tf.add_n([a, b, a])],
        "running": [tf.cumsum(a, 1), tf.cumsum(a, 0, exclusive=True), tf.cumsum(a, 1, reverse=True), tf.cumprod(a, 1, exclusive=True, reverse=True)],
        "made": [tf.range(3, 12, 2), tf.range(5), tf.linspace(0.0, 1.0, 5), tf.fill([2, 2], 7), tf.eye(3), tf.constant(2, shape=[2, 3]), tf.zeros_like(k), tf.ones([2], tf.int32), tf.diag([1.0, 2.0]), tf.matrix_band_part(tf.ones([4, 4]), 1, 0), tf.sequence_mask([1, 3]), *tf.meshgrid([1, 2, 3], [4, 5])],
        "math": [tf.squared_difference(a, b), tf.sign(a), tf.floor(a * 3.0), tf.round(tf.constant([0.5, 1.5, 2.5])), tf.rsqrt(a * a + 1.0), tf.pow(a * a, 1.5), tf.maximum(a, 0.2), tf.lgamma(a * a + 1.0), m.erf(a), tf.atan2(a, b), tf.is_nan(tf.log(a)), m.log_sigmoid(a), tf.count_nonzero(tf.constant([0, 1, 2]))],
        "depth": [tf.space_to_depth(tf.constant(fixed(1, 4, 4, 2)), 2), tf.depth_to_space(tf.constant(fixed(1, 2, 2, 8)), 2)],
        "scatter": [tf.scatter_nd([[1], [3]], [5.0, 6.0], [5])],
    }
    slopes = {
        "relu6": tf.gradients(nn.relu6(a * 10.0), a)[0],
        "max": tf.gradients(tf.reduce_max(a, 1), a)[0],
        "gather": tf.convert_to_tensor(tf.gradients(tf.gather(a, [0, 0, 2]) * 2.0, a)[0]),
        "seeded": tf.gradients([a * b, a * a], [a, b], grad_ys=[b, a]),
        "stopped": tf.gradients(a * tf.stop_gradient(a * a), a)[0],
        "stops": tf.gradients(a * b + b * b, [a, b], stop_gradients=[a, b]),
        "second": tf.gradients(tf.gradients(a * a * a, a)[0], a)[0],
        "clip": tf.gradients(tf.clip_by_value(a, -0.5, 0.5), a)[0],
        "abs": tf.gradients(tf.abs(a), a)[0],
    }
    with tf.Session() as sess:
        return sess.run({**made, **{"slope " + k: v for k, v in slopes.items()}})


def images(tf):
    out = {}
    x = tf.constant(fixed(2, 7, 8, 3))
    w = tf.constant(fixed(3, 2, 3, 4, seed=1))
    nn = tf.nn
    for pad in ("SAME", "VALID"):
        for s in (1, 2, 3):
            y = nn.conv2d(x, w, [1, s, s, 1], pad)
            out[f"conv {pad} {s}"] = y
            out[f"conv {pad} {s} slopes"] = tf.gradients(tf.square(y), [x, w])
            out[f"max {pad} {s}"] = nn.max_pool(x, [1, 3, 2, 1], [1, s, s, 1], pad)
            out[f"avg {pad} {s}"] = nn.avg_pool(x, [1, 3, 2, 1], [1, s, s, 1], pad)
            deep = tf.constant(fixed(3, 3, 3, 2, seed=2))
            out[f"depthwise {pad} {s}"] = nn.depthwise_conv2d(x, deep, [1, s, s, 1], pad)
        out[f"atrous {pad}"] = nn.conv2d(x, w, [1, 1, 1, 1], pad, dilations=[1, 2, 2, 1])
        out[f"conv1d {pad}"] = nn.conv1d(tf.constant(fixed(2, 9, 3)), tf.constant(fixed(3, 3, 5)), 2, pad)
    v = tf.constant(fixed(2, 4, 4, 4))
    out["transpose SAME"] = nn.conv2d_transpose(v, tf.constant(fixed(3, 3, 2, 4)), [2, 7, 8, 2], [1, 2, 2, 1], "SAME")
    out["transpose VALID"] = nn.conv2d_transpose(v, tf.constant(fixed(3, 3, 2, 4)), [2, 9, 9, 2], [1, 2, 2, 1], "VALID")
    point = tf.constant(fixed(1, 1, 6, 5))
    out["separable"] = nn.separable_conv2d(x, tf.constant(fixed(3, 3, 3, 2)), point, [1, 1, 1, 1], "SAME")
    out["bias"] = nn.bias_add(x, [1.0, 2.0, 3.0])
    with tf.Session() as sess:
        return sess.run(out)


def schedules(tf):
    step = tf.placeholder(tf.int64, [])
    t = tf.train
    made = [
        t.exponential_decay(0.1, step, 4, 0.5),
        t.exponential_decay(0.1, step, 4, 0.5, staircase=True),
        t.natural_exp_decay(0.1, step, 4, 0.5),
        t.inverse_time_decay(0.1, step, 4, 0.5),
        t.polynomial_decay(0.1, step, 6, 0.01, power=2.0),
        t.polynomial_decay(0.1, step, 6, 0.01, cycle=True),
        t.piecewise_constant(step, [3, 7], [1.0, 0.5, 0.1]),
        t.cosine_decay(0.1, step, 8, alpha=0.1),
        t.cosine_decay_restarts(0.1, step, 3, t_mul=2.0, m_mul=0.5),
        t.linear_cosine_decay(0.1, step, 8),
    ]
    with tf.Session() as sess:
        return {str(i): sess.run(made, {step: i}) for i in (0, 1, 3, 4, 6, 7, 11)}


def losses(tf):
    y, x = tf.constant(np.abs(fixed(4, 3))), tf.constant(np.abs(fixed(4, 3, seed=3)))
    hot = tf.one_hot([0, 2, 1, 2], 3)
    column, w = tf.constant([[1.0], [0.0], [2.0], [0.5]]), tf.constant(fixed(4, 3) ** 2)
    L, R = tf.losses, tf.losses.Reduction
    made = [
        L.mean_squared_error(y, x),
        L.mean_squared_error(y, x, weights=column),
        L.absolute_difference(y, x, weights=w),
        L.log_loss(y, x),
        L.huber_loss(y, x * 3.0),
        L.hinge_loss(tf.round(y), x),
        L.cosine_distance(y, x, axis=1),
        L.sigmoid_cross_entropy(tf.round(y), x, label_smoothing=0.1),
        L.softmax_cross_entropy(hot, x),
        L.softmax_cross_entropy(hot, x, weights=[1.0, 0.0, 2.0, 1.0], label_smoothing=0.2),
        L.sparse_softmax_cross_entropy([0, 2, 1, 2], x),
        *[L.mean_squared_error(y, x, weights=column, reduction=r) for r in (R.NONE, R.SUM, R.MEAN, R.SUM_OVER_BATCH_SIZE)],
    ]
    total = L.get_total_loss() if False else tf.constant(float(len(L.get_losses())))
    with tf.Session() as sess:
        return {"losses": sess.run(made), "count": sess.run(total)}


def running(tf):
    x = tf.placeholder(tf.float32, [None])
    labels, guesses = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
    mean, mean_op = tf.metrics.mean(x)
    acc, acc_op = tf.metrics.accuracy(labels, guesses)
    prec, prec_op = tf.metrics.precision(labels, guesses)
    v = tf.Variable([1.0, 2.0], name="v")
    ema = tf.train.ExponentialMovingAverage(0.9)
    average = ema.apply([v])
    grow = v.assign_add([1.0, 1.0])
    with tf.control_dependencies([grow]):
        both = tf.group(ema.apply([v]))
    u = tf.Variable(np.zeros((4, 2), np.float32))
    scatters = [tf.scatter_add(u, [1, 1, 3], np.ones((3, 2), np.float32)), tf.scatter_update(u, [0, 2], [[5.0, 5.0], [6.0, 6.0]]), tf.scatter_sub(u, [3], [[9.0, 9.0]])]
    out = {"values": [], "scatter": []}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(tf.local_variables_initializer())
        for i in range(3):
            feed = {x: fixed(i + 2), labels: classes(6, 2, i), guesses: classes(6, 2)}
            sess.run([mean_op, acc_op, prec_op], feed)
            out["values"].append(sess.run([mean, acc, prec]))
        sess.run(average)
        sess.run(both)
        out["average"] = sess.run([ema.average(v), v])
        for s in scatters:
            out["scatter"].append(sess.run(s))
    out["names"] = [ema.average(v).name, ema.average_name(v)] + [n.name for n in tf.local_variables()]
    return out


def batch_norm_by_hand(tf):
    """The recipe with moving averages inside of ``cond``."""
    x = tf.placeholder(tf.float32, [None, 4])
    phase = tf.placeholder(tf.bool, name="phase")
    beta, gamma = tf.Variable(tf.constant(0.1, shape=[4])), tf.Variable(tf.constant(1.2, shape=[4]))
    batch_mean, batch_var = tf.nn.moments(x, [0], name="moments")
    ema = tf.train.ExponentialMovingAverage(decay=0.5)

    def updated():
        with tf.control_dependencies([ema.apply([batch_mean, batch_var])]):
            return tf.identity(batch_mean), tf.identity(batch_var)

    mean, var = tf.cond(phase, updated, lambda: (ema.average(batch_mean), ema.average(batch_var)))
    y = tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-3)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(y - 1.0)))
    out = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(3):
            sess.run(step, {x: fixed(6, 4, seed=i), phase: True})
            out.append(sess.run(y, {x: fixed(3, 4), phase: False}))
        values = sess.run([ema.average(batch_mean), ema.average(batch_var), beta, gamma])
    return {"outputs": out, "values": values, "shape": str(y.shape)}


def adversaries(tf):
    """Two networks with variable lists, scopes, shared weights and a gradient penalty."""
    z = tf.placeholder(tf.float32, [None, 3], name="z")
    real = tf.placeholder(tf.float32, [None, 2], name="real")

    def generator(z):
        with tf.variable_scope("generator"):
            w = tf.get_variable("w", [3, 2], initializer=tf.constant_initializer(fixed(3, 2)))
            b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
            return tf.tanh(tf.matmul(z, w) + b)

    def critic(x, reuse=False):
        with tf.variable_scope("critic", reuse=reuse):
            w = tf.get_variable("w", [2, 4], initializer=tf.constant_initializer(fixed(2, 4, seed=1)))
            v = tf.get_variable("v", [4, 1], initializer=tf.constant_initializer(fixed(4, 1, seed=2)))
            return tf.matmul(tf.nn.leaky_relu(tf.matmul(x, w)), v)

    fake = generator(z)
    on_real, on_fake = critic(real), critic(fake, reuse=True)
    mixed = 0.3 * real + 0.7 * fake
    slope = tf.gradients(critic(mixed, reuse=True), [mixed])[0]
    penalty = tf.reduce_mean((tf.sqrt(tf.reduce_sum(tf.square(slope), axis=1)) - 1.0) ** 2)
    d_loss = tf.reduce_mean(on_fake) - tf.reduce_mean(on_real) + 10.0 * penalty
    g_loss = -tf.reduce_mean(on_fake)
    variables = tf.trainable_variables()
    d_vars = [v for v in variables if v.name.startswith("critic")]
    g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="generator")
    d_step = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(d_loss, var_list=d_vars)
    g_step = tf.train.AdamOptimizer(0.01, beta1=0.5).minimize(g_loss, var_list=g_vars)
    clip = [v.assign(tf.clip_by_value(v, -0.8, 0.8)) for v in d_vars]
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(4):
            feed = {z: fixed(5, 3, seed=i), real: fixed(5, 2, seed=i + 9)}
            losses.append(sess.run([d_loss, d_step], feed)[0])
            losses.append(sess.run([g_loss, g_step], feed)[0])
        sess.run(clip)
        last = sess.run(variables)
    return {"losses": losses, "last": last, "names": [v.name for v in tf.global_variables()]}


def target_network(tf):
    """Q-learning: two networks, one copied to the other, actions by one_hot."""
    state, action, target = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])

    def network(name, x):
        with tf.variable_scope(name):
            w1 = tf.Variable(fixed(4, 8, seed=len(name)), name="w1")
            w2 = tf.Variable(fixed(8, 3, seed=len(name) + 1), name="w2")
            return tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2)

    q, fixed_q = network("online", state), network("target", state)
    online = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "online")
    frozen = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "target")
    copy = tf.group(*[t.assign(o) for t, o in zip(frozen, online)])
    soft = [tf.assign(t, 0.9 * t + 0.1 * o) for t, o in zip(frozen, online)]
    chosen = tf.reduce_sum(q * tf.one_hot(action, 3), axis=1)
    loss = tf.losses.huber_loss(target, chosen)
    step = tf.train.RMSPropOptimizer(0.01, momentum=0.9, epsilon=0.01).minimize(loss, var_list=online)
    out = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(3):
            feed = {state: fixed(6, 4, seed=i), action: classes(6, 3, i), target: fixed(6, seed=i)}
            out.append(sess.run([loss, step], feed)[0])
            out.append(sess.run(soft)[0])
        sess.run(copy)
        both = sess.run([q, fixed_q], {state: fixed(2, 4)})
    return {"out": out, "both": both, "best": np.argmax(both[0], 1)}


def autoencoder(tf):
    """A variational autoencoder with the noise fed, layers and weight decay."""
    x, eps = tf.placeholder(tf.float32, [None, 12]), tf.placeholder(tf.float32, [None, 2])

    def decay(w):
        return 0.01 * tf.nn.l2_loss(w)

    def dense(x, n, seed, f=None):
        init = tf.constant_initializer(fixed(int(x.shape[1]), n, seed=seed, scale=0.5))
        return tf.layers.dense(x, n, activation=f, kernel_initializer=init, kernel_regularizer=decay)

    h = dense(x, 6, 0, tf.nn.elu)
    mean, log_var = dense(h, 2, 1), dense(h, 2, 2)
    code = mean + tf.exp(0.5 * log_var) * eps
    logits = dense(dense(code, 6, 3, tf.nn.softplus), 12, 4)
    rebuilt = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), 1)
    kl = -0.5 * tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), axis=1)
    penalty = tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
    loss = tf.reduce_mean(rebuilt + kl) + penalty
    step = tf.train.AdamOptimizer(0.02).minimize(loss)
    values = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(4):
            feed = {x: np.abs(fixed(5, 12, seed=i)), eps: fixed(5, 2, seed=i)}
            values.append(sess.run([loss, penalty, step], feed)[:2])
    return {"values": values, "names": [v.name for v in tf.trainable_variables()]}


def nested_loops(tf):
    """Loops in loops, branches in loops, arrays read and written, matrices carried."""
    n = tf.placeholder(tf.int32, [])
    w = tf.Variable(fixed(3, 3, scale=0.5))

    def inner(i, m):
        return tf.while_loop(lambda j, a: j < i, lambda j, a: [j + 1, tf.matmul(a, w) + tf.cast(j, tf.float32)], [tf.constant(0), m])[1]

    def body(i, m, log):
        m = tf.cond(tf.equal(i % 2, 0), lambda: inner(i, m), lambda: tf.nn.relu(m) - 0.1)
        return [i + 1, m, log.write(i, tf.reduce_sum(m))]

    log = tf.TensorArray(tf.float32, size=n)
    i, m, log = tf.while_loop(lambda i, *_: tf.less(i, n), body, [tf.constant(0), tf.eye(3), log])
    sums = log.stack()
    slope = tf.gradients(tf.reduce_sum(sums), w)[0]
    rows = tf.TensorArray(tf.float32, size=4).unstack(tf.constant(fixed(4, 2)))
    total = tf.while_loop(lambda k, t: k < 4, lambda k, t: (k + 1, t * 0.5 + rows.read(k)), [0, tf.zeros([2])])[1]
    counter = tf.Variable(0)
    count = tf.while_loop(lambda k: k < 3, lambda k: k + 1 + 0 * tf.assign_add(counter, 2), [0])
    power = tf.while_loop(lambda a, b: a < 100.0, lambda a, b: (a * 3.0, b + 1), (tf.constant(1.0), tf.constant(0)))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        out = {f"run {k}": sess.run([i, m, sums, slope, total], {n: k}) for k in (3, 5)}
        out["count"] = [sess.run(count), sess.run(counter)]
        out["power"] = sess.run(power)
    return out


def linear_algebra(tf):
    a = fixed(3, 3)
    m, b = tf.constant(a @ a.T + 2 * np.eye(3, dtype=np.float32)), tf.constant(fixed(3, 2))
    low = tf.cholesky(m)
    s, u, v = tf.svd(b)
    made = {
        "matrices": [low, tf.matrix_inverse(m), tf.matrix_determinant(m), tf.matrix_solve(m, b), tf.matrix_triangular_solve(low, b), tf.matrix_triangular_solve(low, b, adjoint=True)],
        "svd": [s, tf.matmul(u * s, v, transpose_b=True), tf.self_adjoint_eig(m)[0], tf.svd(b, compute_uv=False)],
        "segments": [tf.segment_sum(b, [0, 0, 2]), tf.unsorted_segment_sum(b, [2, 0, 2], 4), tf.segment_mean(b, [0, 0, 1])],
        "counts": [tf.confusion_matrix([1, 0, 2, 1], [1, 2, 2, 0], 3), tf.invert_permutation([2, 0, 1])],
        "slopes": tf.gradients([tf.reduce_sum(tf.cholesky(m)), tf.matrix_determinant(m)], m),
        "segment slope": tf.gradients(tf.segment_sum(b, [0, 0, 2]) * 2.0, b),
    }
    with tf.Session() as sess:
        return sess.run(made)


def more_layers(tf):
    x = tf.placeholder(tf.float32, [None, 6, 7, 3])
    seq = tf.placeholder(tf.float32, [None, 9, 4])
    k, L = tf.constant_initializer(0.1), tf.layers
    made = {
        "transpose": L.conv2d_transpose(x, 4, 3, strides=2, padding="same", kernel_initializer=k),
        "transpose valid": L.conv2d_transpose(x, 4, 3, strides=2, kernel_initializer=k),
        "separable": L.separable_conv2d(x, 5, 3, depth_multiplier=2, depthwise_initializer=k, pointwise_initializer=k),
        "conv1d": L.conv1d(seq, 5, 3, strides=2, padding="same", kernel_initializer=k, activation=tf.nn.tanh),
        "max1d": L.max_pooling1d(seq, 3, 2),
        "avg1d": L.average_pooling1d(seq, 3, 2, padding="same"),
        "avg": L.average_pooling2d(x, [2, 3], [2, 2], padding="same"),
        "dilated": L.conv2d(x, 2, 3, dilation_rate=2, use_bias=False, kernel_initializer=k),
        "dense 3d": L.dense(seq, 2, kernel_initializer=k),
        "dropout": L.dropout(seq, 0.5, training=False),
    }
    dense = L.Dense(3, kernel_initializer=k, name="shared")
    made["twice"] = dense(dense(tf.ones([2, 3])))
    slopes = tf.gradients([tf.reduce_sum(tf.square(v)) for v in made.values()], tf.trainable_variables())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feed = {x: fixed(2, 6, 7, 3), seq: fixed(2, 9, 4)}
        out = sess.run(made, feed)
        out["slopes"] = sess.run(slopes, feed)
    out["names"] = [v.name for v in tf.trainable_variables()]
    out["shapes"] = [str(v.shape) for v in made.values()]
    return out


PROGRAMS = [logistic_regression, deep_mnist, optimizers, clipped_gradients, embeddings, recurrent, control_flow, batch_norm, scopes, static_shapes, functions, images, schedules, losses, running]
PROGRAMS += [batch_norm_by_hand, adversaries, target_network, autoencoder, nested_loops, linear_algebra, more_layers]


def plain(x):
    """Values as JSON has them."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if isinstance(x, (np.ndarray, np.generic)):
        return {"dtype": str(x.dtype), "shape": list(x.shape), "values": [float(f"{v:.7g}") for v in np.asarray(x, float).reshape(-1)]}
    return x


if __name__ == "__main__":
    import tensorflow.compat.v1 as tensorflow

    tensorflow.disable_v2_behavior()
    found = {}
    for program in PROGRAMS:
        tensorflow.reset_default_graph()
        print(program.__name__, file=sys.stderr)
        found[program.__name__] = plain(program(tensorflow))
    VALUES.write_text(json.dumps(found, separators=(",", ":")).replace('"},', '"},\n').replace("]},", "]},\n") + "\n")

"""The same programs as crates/talweg/tests/faces.rs give the same losses: a PyTorch-style loop, the program of the
TensorFlow paper as printed, and functions of functions. To the bit where the Rust tests have run on this machine, and
else to the accuracy that different processors agree in."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

import talweg as tw

ROOT = Path(__file__).parent.parent.parent
STEPS = 8


def read(path):
    def number(word):
        return struct.unpack("!f", bytes.fromhex(word))[0]

    return {line.split()[0]: [number(w) for w in line.split()[1:]] for line in path.read_text().splitlines()}


ONCE = read(ROOT / "crates/talweg/tests/faces.txt")


def check(name, losses, is_exact=True):
    np.testing.assert_allclose(losses, ONCE[name], rtol=1e-4)
    live = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tmp/faces.txt"
    if is_exact and live.exists():
        rust = read(live)
        # An older run may not have had this program.
        assert name not in rust or losses == rust[name]


def problem():
    tw.manual_seed(11)
    x, y = tw.randn(16, 12), tw.randint(0, 3, (16,))
    x.eval(), y.eval()
    params = [
        tw.Variable(tw.uniform((12, 8), -0.5, 0.5)),
        tw.Variable(tw.zeros(8)),
        tw.Variable(tw.uniform((8, 3), -0.5, 0.5)),
        tw.Variable(tw.zeros(3)),
    ]
    return x, y, params


def loss(params, x, y):
    w1, b1, w2, b2 = params
    return ((x @ w1 + b1).relu() @ w2 + b2).cross_entropy(y)


RULES = {
    "sgd": lambda p: tw.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda p: tw.optim.Adagrad(p, lr=0.1),
    "adam": lambda p: tw.optim.Adam(p, lr=0.05),
    "adamw": lambda p: tw.optim.AdamW(p, lr=0.05),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_pytorch_style_loop(rule):
    x, y, params = problem()
    optimizer = RULES[rule](params)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss(params, x, y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    check(rule, losses)


@pytest.mark.parametrize("rule", RULES)
def test_a_jitted_step(rule):
    x, y, params = problem()
    optimizer = RULES[rule](params)

    @tw.jit
    def step(x, y):
        value = loss(params, x, y)
        value.backward()
        optimizer.step()
        return value

    check(rule, [step(x, y).item() for _ in range(STEPS)])


@pytest.mark.parametrize("rule", RULES)
def test_a_session(rule):
    x_data, y_data, params = problem()
    x, y = tw.placeholder("float32", [16, 12]), tw.placeholder("int64", [16])
    value = loss(params, x, y)
    train = RULES[rule](params).minimize(value)
    session = tw.Session()
    check(rule, [session.run([train, value], {x: x_data, y: y_data})[1].item() for _ in range(STEPS)])


def test_functions_of_functions():
    x, y, params = problem()
    params = [p.detach() for p in params]

    @tw.jit
    def step(params, x, y):
        value, slopes = tw.value_and_grad(loss)(params, x, y)
        return value, [p - 0.1 * g for p, g in zip(params, slopes)]

    losses = []
    for _ in range(STEPS):
        value, params = step(params, x, y)
        losses.append(value.item())
    check("functional", losses)


def test_the_program_of_the_tensorflow_paper():
    import talweg.compat.v1 as tf

    tw.manual_seed(7)
    pictures, labels = tw.rand(16, 784).eval(), tw.randint(0, 10, (16,)).eval()
    answers = labels.one_hot(10, "float32").numpy()
    BATCH_SIZE, NUM_STEPS, losses = 16, STEPS, []
    first = tw.Session().run([tw.uniform([784, 100], 0.0, 1.0), tw.uniform([100, 10], 0.0, 1.0)])  # as Rust draws them

    # 1. Construct a graph representing the model.
    x = tf.placeholder(tf.float32, [BATCH_SIZE, 784])  # Placeholder for input.
    y = tf.placeholder(tf.float32, [BATCH_SIZE, 10])  # Placeholder for labels.

    W_1 = tf.Variable(tf.random_uniform([784, 100]))  # 784x100 weight matrix.
    b_1 = tf.Variable(tf.zeros([100]))  # 100-element bias vector.
    layer_1 = tf.nn.relu(tf.matmul(x, W_1) + b_1)  # Output of hidden layer.

    W_2 = tf.Variable(tf.random_uniform([100, 10]))  # 100x10 weight matrix.
    b_2 = tf.Variable(tf.zeros([10]))  # 10-element bias vector.
    layer_2 = tf.matmul(layer_1, W_2) + b_2  # Output of linear layer.

    # 2. Add nodes that represent the optimization algorithm.
    loss = tf.nn.softmax_cross_entropy_with_logits(layer_2, y)
    train_op = tf.train.AdagradOptimizer(0.01, 1e-20).minimize(loss)  # Rust's begins with 0

    # 3. Execute the graph on batches of input data.
    with tf.Session() as sess:  # Connect to the TF runtime.
        sess.run(tf.initialize_all_variables())  # Randomly initialize weights.
        W_1.load(first[0]), W_2.load(first[1])
        for step in range(NUM_STEPS):  # Train iteratively for NUM_STEPS.
            x_data, y_data = pictures, answers  # Load one batch of input data.
            value, _ = sess.run([loss, train_op], {x: x_data, y: y_data})  # Perform one training step.
            losses.append(tw.tensor(value).sum().item())
    check("two_phase", losses, is_exact=False)  # Adagrad's step is TensorFlow's formula


def test_the_seeds_program_runs_as_printed():
    """Only the import and the data line differ from what the paper prints."""
    program = """
# 1. Construct a graph representing the model.
x = tf.placeholder(tf.float32, [BATCH_SIZE, 784]) # Placeholder for input.
y = tf.placeholder(tf.float32, [BATCH_SIZE, 10])  # Placeholder for labels.

W_1 = tf.Variable(tf.random_uniform([784, 100])) # 784x100 weight matrix.
b_1 = tf.Variable(tf.zeros([100]))               # 100-element bias vector.
layer_1 = tf.nn.relu(tf.matmul(x, W_1) + b_1)     # Output of hidden layer.

W_2 = tf.Variable(tf.random_uniform([100, 10]))  # 100x10 weight matrix.
b_2 = tf.Variable(tf.zeros([10]))                # 10-element bias vector.
layer_2 = tf.matmul(layer_1, W_2) + b_2          # Output of linear layer.

# 2. Add nodes that represent the optimization algorithm.
loss = tf.nn.softmax_cross_entropy_with_logits(layer_2, y)
train_op = tf.train.AdagradOptimizer(0.01).minimize(loss)

# 3. Execute the graph on batches of input data.
with tf.Session() as sess: # Connect to the TF runtime.
    sess.run(tf.initialize_all_variables()) # Randomly initialize weights.
    for step in range(NUM_STEPS): # Train iteratively for NUM_STEPS.
        x_data, y_data = next(data) # Load one batch of input data.
        sess.run(train_op, {x: x_data, y: y_data}) # Perform one training step.
"""
    import talweg.compat.v1 as tf

    data = iter([(np.random.rand(4, 784), np.eye(10)[:4])] * 3)
    names = {"tf": tf, "BATCH_SIZE": 4, "NUM_STEPS": 3, "data": data}
    exec(program, names)
    assert names["W_1"].shape == (784, 100)

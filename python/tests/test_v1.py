"""TensorFlow 1's programs under ``talweg.compat.v1``: values, shapes and names as TensorFlow has them."""

import json
import math

import numpy as np
import pytest

import talweg as tw
import talweg.compat.v1 as tf
from v1_programs import PROGRAMS, VALUES, plain

EXPECTED = json.loads(VALUES.read_text())


@pytest.fixture(autouse=True)
def fresh():
    tf.reset_default_graph()


def differences(found, wanted, path=""):
    if isinstance(wanted, dict) and "values" in wanted and "dtype" in wanted:
        if not isinstance(found, dict) or "shape" not in found:
            return [f"{path}: {found} is no array"]
        if (found["dtype"], found["shape"]) != (wanted["dtype"], wanted["shape"]):
            return [f"{path}: {found['dtype']}{found['shape']}, not {wanted['dtype']}{wanted['shape']}"]
        a, b = np.array(found["values"]), np.array(wanted["values"])
        near = np.isclose(a, b, rtol=2e-4, atol=2e-5, equal_nan=True)
        return [] if near.all() else [f"{path}: {a[~near][:4]} not {b[~near][:4]}"]
    if isinstance(wanted, dict):
        missing = [f"{path}/{k}: absent" for k in wanted if k not in found]
        return missing + [d for k in wanted if k in found for d in differences(found[k], wanted[k], f"{path}/{k}")]
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return [f"{path}: {found} not {wanted}"]
        return [d for i, (a, b) in enumerate(zip(found, wanted)) for d in differences(a, b, f"{path}[{i}]")]
    same = found == wanted or (isinstance(wanted, float) and math.isclose(found, wanted, rel_tol=1e-5))
    return [] if same else [f"{path}: {found!r} not {wanted!r}"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_do_what_tensorflow_does(program):
    found = differences(plain(program(tf)), EXPECTED[program.__name__])
    assert not found, "\n".join(found)


def test_a_run_is_compiled_once_for_each_set_of_sizes():
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.Variable(tf.ones([3, 1]))
    y = tf.reduce_mean(tf.matmul(x, w))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.compiles
        for _ in range(3):
            for n in (8, 8, 5):  # the last batch is smaller
                sess.run(step, {x: np.ones((n, 3))})
        assert sess.compiles - before == 2


def test_old_plans_are_forgotten():
    from talweg.compat.v1.session import PLANS_MAX

    x = tf.placeholder(tf.float32, [None])
    y = tf.reduce_sum(x)
    with tf.Session() as sess:
        for n in range(PLANS_MAX + 5):
            assert sess.run(y, {x: np.ones(n)}) == n
        assert len(sess._plans) == PLANS_MAX


def test_sizes_that_a_run_computes():
    n = tf.placeholder(tf.int32, [])
    lengths = tf.placeholder(tf.int32, [None])
    v = tf.Variable(3)
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(tf.zeros([n, 2]), {n: 4}).shape == (4, 2)
        assert sess.run(tf.sequence_mask(lengths), {lengths: [1, 4]}).shape == (2, 4)
        assert sess.run(tf.range(v)).tolist() == [0, 1, 2]
        sess.run(v.assign(5))
        assert sess.run(tf.range(v)).tolist() == [0, 1, 2, 3, 4]
        assert sess.run(tf.nn.rnn_cell.BasicLSTMCell(3).zero_state(n, tf.float32), {n: 2}).c.shape == (2, 3)


def test_fetches_keep_their_form_and_feeds_are_checked():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.multiply(x, 2.0, name="y")
    with tf.Session() as sess:
        got = sess.run({"a": [y, (y, "y:0")], "b": tf.no_op()}, {"x:0": [[1, 2]]})
        assert got["b"] is None and got["a"][1][1].tolist() == [[2.0, 4.0]]
        assert isinstance(sess.run(tf.reduce_sum(y), {x: [[1, 2]]}), np.float32)
        assert sess.run(y, {y: [[7, 7]]}).tolist() == [[7.0, 7.0]]  # any tensor can be fed
        with pytest.raises(tw.FeedError, match=r"cannot feed value of shape \(1, 3\) for tensor 'x:0', which has shape \(\?, 2\)"):
            sess.run(y, {x: [[1, 2, 3]]})
        with pytest.raises(tw.FeedError, match="you must feed a value for placeholder 'x'"):
            sess.run(y)
        with pytest.raises(TypeError, match="None"):
            sess.run(None)
        with pytest.raises(KeyError, match="no operation 'z'"):
            sess.run("z:0")
        with pytest.raises(NotImplementedError, match="partial_run"):
            sess.partial_run_setup([y])
    with pytest.raises(ValueError, match="no default session"):
        y.eval()


def test_variables_belong_to_a_session():
    v = tf.Variable([1.0, 2.0], name="v")
    a, b = tf.Session(), tf.Session()
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
        a.run(v)
    a.run(tf.global_variables_initializer())
    a.run(v.assign([5.0, 6.0]))
    b.run(tf.global_variables_initializer())
    assert a.run(v).tolist() == [5.0, 6.0] and b.run(v).tolist() == [1.0, 2.0]
    assert b.run(tf.report_uninitialized_variables()).tolist() == []


def test_seeds():
    tf.set_random_seed(3)
    a, b, c = tf.random_normal([3]), tf.random_normal([3]), tf.random_uniform([3], seed=5)
    with tf.Session() as one, tf.Session() as two:
        first = [one.run([a, b, c]) for _ in range(2)]
        again = [two.run([a, b, c]) for _ in range(2)]
    assert np.array_equal(first, again)
    assert not np.array_equal(first[0], first[1]) and not np.array_equal(first[0][0], first[0][1])
    big = tf.truncated_normal([20000], 1.0, 0.5, seed=1)
    whole = tf.random_uniform([5000], 2, 7, tf.int32)
    with tf.Session() as sess:
        x, k = sess.run([big, whole])
    assert abs(x.mean() - 1) < 0.02 and x.min() >= 0 and x.max() <= 2
    assert sorted(set(k)) == [2, 3, 4, 5, 6]


def test_random_numbers_differ_between_iterations():
    _, rows = tf.while_loop(lambda i, r: i < 3, lambda i, r: (i + 1, r * 10 + tf.floor(tf.random_uniform([]) * 10)), [0, 0.0])
    each = tf.map_fn(lambda x: tf.random_uniform([]) + 0.0 * x, tf.zeros([4]))
    with tf.Session() as sess:
        digits, drawn = sess.run([rows, each])
        assert len(set(f"{int(digits):03d}")) > 1 or len(set(f"{int(sess.run(rows)):03d}")) > 1
    assert len(set(drawn.tolist())) == 4


def test_dropout_and_its_gradient_use_one_mask():
    x = tf.ones([1000])
    y = tf.nn.dropout(x, 0.25)
    slope = tf.gradients(y, x)[0]
    with tf.Session() as sess:
        a, g = sess.run([y, slope])
    assert np.array_equal(a, g) and set(a.tolist()) == {0.0, 4.0} and abs(a.mean() - 1) < 0.3


def test_saver(tmp_path):
    v, step = tf.Variable([1.0, 2.0], name="net/v"), tf.Variable(0, name="step", trainable=False)
    grow = tf.group(v.assign_add([1.0, 1.0]), step.assign_add(1))
    saver = tf.train.Saver(max_to_keep=2)
    path = str(tmp_path / "model.ckpt")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            sess.run(grow)
            saved = saver.save(sess, path, global_step=step)
    assert saved == path + "-4" and tf.train.latest_checkpoint(str(tmp_path)) == saved
    assert sorted(p.name for p in tmp_path.glob("*.safetensors")) == ["model.ckpt-3.safetensors", "model.ckpt-4.safetensors"]
    with tf.Session() as sess:
        saver.restore(sess, saved)
        assert sess.run(v).tolist() == [5.0, 6.0] and sess.run(step) == 4
        tf.train.Saver({"net/v": v}).restore(sess, path + "-3")
        assert sess.run(v).tolist() == [4.0, 5.0]
        with pytest.raises(KeyError, match="has no variable 'other'"):
            tf.train.Saver({"other": v}).restore(sess, saved)
        (tmp_path / "theirs.index").write_bytes(b"")
        with pytest.raises(ValueError, match="checkpoint of TensorFlow"):
            saver.restore(sess, str(tmp_path / "theirs"))
    assert tf.train.list_variables(saved) == [("net/v", [2]), ("step", [])]


def test_event_files(tmp_path):
    from talweg.compat.v1 import events

    assert events.crc32c(b"123456789") == 0xE3069283
    x = tf.placeholder(tf.float32, [])
    with tf.name_scope("train"):
        tf.summary.scalar("loss", x)
    tf.summary.histogram("weights", tf.stack([x, x + 1.0]))
    tf.summary.image("pictures", tf.zeros([2, 4, 4, 1]))
    merged = tf.summary.merge_all()
    with tf.Session() as sess, tf.summary.FileWriter(str(tmp_path), sess.graph) as writer:
        for i in range(3):
            writer.add_summary(sess.run(merged, {x: i / 2}), i)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="mine", simple_value=4.0)]), 9)
    records = events.read_records(next(tmp_path.glob("events.out.tfevents.*")))
    assert len(records) == 6 and b"brain.Event:2" in records[0] and b"Placeholder" in records[1]
    assert b"train/loss" in records[2] and b"weights" in records[2] and b"PNG" in records[2]
    assert np.float32(0.5).tobytes() in records[3] and b"mine" in records[5]


def test_python_in_the_graph(capfd):
    x = tf.placeholder(tf.float32, [None])
    doubled = tf.py_func(lambda a: a * 2, [x], tf.float32)
    total = tf.reduce_sum(tf.Print(doubled, [doubled], "seen: "))
    checked = tf.Assert(total < 10.0, ["too much", total])
    with tf.control_dependencies([checked]):
        result = tf.identity(total)
    with tf.Session() as sess:
        assert sess.run(result, {x: [1, 2]}) == 6.0
        assert "seen: [2.0 4.0]" in capfd.readouterr().err
        with pytest.raises(tf.errors.InvalidArgumentError, match="too much"):
            sess.run(result, {x: [4, 4]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="NaN"):
            sess.run(tf.check_numerics(tf.log(x), "logs"), {x: [-1.0]})


def test_a_monitored_session_resumes(tmp_path):
    def train(steps):
        tf.reset_default_graph()
        count = tf.train.get_or_create_global_step()
        w = tf.Variable(0.0)
        step = tf.train.GradientDescentOptimizer(0.5).minimize(tf.square(w - 1.0), global_step=count)
        hooks = [tf.train.StopAtStepHook(last_step=steps)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=hooks, save_checkpoint_steps=2) as sess:
            while not sess.should_stop():
                sess.run(step)
            return sess.run([count, w])

    assert train(3) == [3, 1.0]
    assert train(5)[0] == 5


def test_interactive_sessions_and_graphs():
    with tf.Graph().as_default() as graph:
        c = tf.constant("hello")
        sess = tf.InteractiveSession()
        assert c.eval() == b"hello" and tf.get_default_graph() is graph
        v = tf.Variable(2.0)
        v.initializer.run()
        assert (v * 3.0).eval() == 6.0
        sess.close()
    other = tf.constant(1.0)
    assert other.graph is not graph
    with pytest.raises(ValueError, match="another graph"):
        tf.Session(graph=graph).run(other)
    with pytest.raises(ValueError, match="different graphs"):
        tf.add(other, v)


def test_what_is_absent_says_what_to_use():
    for name, hint in [("estimator", "talweg.train.Trainer"), ("data", "DataLoader"), ("keras", "talweg.nn")]:
        with pytest.raises(AttributeError, match=hint):
            getattr(tf, name)
    with pytest.raises(AttributeError, match="nearest: placeholder"):
        tf.placeholdr
    with pytest.raises(tw.Error, match="compat.v1"):
        tw.placeholder("float32", [None, 3])


def test_errors_name_the_line_of_the_operation():
    x = tf.placeholder(tf.float32, [None, None])
    y = tf.matmul(x, x)
    with tf.Session() as sess, pytest.raises(ValueError, match=r"MatMul.*inner sizes differ.*made at .*test_v1.py:\d+"):
        sess.run(y, {x: np.ones((2, 3))})
    with pytest.raises(TypeError, match="no value while the graph is being built"):
        if tf.reduce_sum(x) > 0:
            pass
    with pytest.raises(ValueError, match="changes its shape|body returns"):
        tf.Session().run(tf.while_loop(lambda a: tf.size(a) < 9, lambda a: tf.concat([a, a], 0), [tf.ones([2])]))


def test_flags(monkeypatch):
    import sys

    tf.flags.DEFINE_integer("steps", 10, "how many")
    tf.flags.DEFINE_bool("fast", False, "")
    monkeypatch.setattr(sys, "argv", ["program", "--steps=7", "--fast", "rest"])
    with pytest.raises(SystemExit) as left:
        tf.app.run(main=lambda argv: 3 if (tf.flags.FLAGS.steps, tf.flags.FLAGS.fast, argv[1:]) == (7, True, ["rest"]) else 4)
    assert left.value.code == 3


def test_contrib():
    x = tf.placeholder(tf.float32, [None, 8, 8, 3])
    flag = tf.placeholder(tf.bool, [])
    layers = tf.contrib.layers
    decay = layers.l2_regularizer(0.5)
    h = layers.conv2d(x, 4, [3, 3], normalizer_fn=layers.batch_norm, normalizer_params={"is_training": flag})
    h = layers.flatten(layers.max_pool2d(h, [2, 2]))
    y = layers.fully_connected(h, 2, activation_fn=None, weights_regularizer=decay, weights_initializer=layers.xavier_initializer())
    assert str(h.shape) == "(?, 64)" and str(y.shape) == "(?, 2)"
    (loss,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    cell = tf.contrib.rnn.BasicLSTMCell(3)
    out, _ = tf.nn.dynamic_rnn(cell, tf.zeros([2, 4, 5]), dtype=tf.float32)
    mean = tf.contrib.seq2seq.sequence_loss(tf.zeros([2, 3, 7]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3]))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(y, {x: np.ones((3, 8, 8, 3)), flag: True}).shape == (3, 2)
        kernel = sess.run(next(v for v in tf.trainable_variables() if v.shape.as_list() == [64, 2]))
        assert sess.run(loss) == pytest.approx((kernel**2).sum() / 4, rel=1e-4)
        assert sess.run(out).shape == (2, 4, 3) and sess.run(mean) == pytest.approx(math.log(7), rel=1e-5)
    with pytest.raises(AttributeError, match="contrib has layers"):
        tf.contrib.slim


def test_initializers():
    shapes = {"orthogonal_initializer": [6, 3], "glorot_uniform_initializer": [40, 60], "truncated_normal_initializer": [50, 50]}
    made = {k: tf.get_variable(k, s, initializer=getattr(tf, k)()) for k, s in shapes.items()}
    made["he"] = tf.get_variable("he", [200, 100], initializer=tf.initializers.he_normal())
    made["value"] = tf.get_variable("value", initializer=tf.constant([1.0, 2.0]))
    made["whole"] = tf.get_variable("whole", [2], tf.int32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        v = sess.run(made)
    np.testing.assert_allclose(v["orthogonal_initializer"].T @ v["orthogonal_initializer"], np.eye(3), atol=1e-5)
    assert np.abs(v["glorot_uniform_initializer"]).max() <= math.sqrt(6 / 100)
    assert np.abs(v["truncated_normal_initializer"]).max() <= 2
    assert v["he"].std() == pytest.approx(math.sqrt(2 / 200), rel=0.05)
    assert v["value"].tolist() == [1.0, 2.0] and v["whole"].tolist() == [0, 0]

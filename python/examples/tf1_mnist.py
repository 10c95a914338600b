"""TensorFlow 1's first tutorial: softmax regression on digits, with a Saver and summaries. Only the import differs."""

import os
import tempfile

import numpy as np

import talweg.compat.v1 as tf
from talweg.utils.data import digits

QUICK = bool(os.environ.get("TALWEG_QUICK"))
images, labels = (t.numpy() for t in digits(500 if QUICK else 5000))
images, labels = images.reshape(-1, 784) / 255.0, np.eye(10)[labels]
folder = tempfile.mkdtemp()

# The model.
x = tf.placeholder(tf.float32, [None, 784], name="x")
y_ = tf.placeholder(tf.float32, [None, 10], name="y_")
W = tf.Variable(tf.zeros([784, 10]), name="W")
b = tf.Variable(tf.zeros([10]), name="b")
y = tf.matmul(x, W) + b

# The loss and the optimizer.
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.nn.log_softmax(y), reduction_indices=[1]))
tf.summary.scalar("cross_entropy", cross_entropy)
train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
merged, saver = tf.summary.merge_all(), tf.train.Saver()

with tf.Session() as sess:
    writer = tf.summary.FileWriter(folder, sess.graph)
    sess.run(tf.global_variables_initializer())
    for epoch in range(2 if QUICK else 10):
        for i in range(0, len(images), 64):  # the last batch is smaller
            feed = {x: images[i : i + 64], y_: labels[i : i + 64]}
            summary, _ = sess.run([merged, train_step], feed_dict=feed)
        writer.add_summary(summary, epoch)
        print(epoch, "accuracy", accuracy.eval({x: images, y_: labels}))
    path = saver.save(sess, os.path.join(folder, "model.ckpt"))

with tf.Session() as sess:
    saver.restore(sess, path)
    reached = sess.run(accuracy, {x: images, y_: labels})
assert reached > 0.6, reached

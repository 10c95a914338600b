"""TensorFlow 1's second tutorial: a convolutional network on digits, with dropout. Only the import differs."""

import os

import numpy as np

import talweg.compat.v1 as tf
from talweg.utils.data import digits

QUICK = bool(os.environ.get("TALWEG_QUICK"))
images, labels = (t.numpy() for t in digits(200 if QUICK else 4000))
images, labels = images.reshape(-1, 784) / 255.0, np.eye(10)[labels]


def weight_variable(shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1))


def bias_variable(shape):
    return tf.Variable(tf.constant(0.1, shape=shape))


def conv2d(x, W):
    return tf.nn.conv2d(x, W, strides=[1, 1, 1, 1], padding="SAME")


def max_pool_2x2(x):
    return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


x = tf.placeholder(tf.float32, [None, 784])
y_ = tf.placeholder(tf.float32, [None, 10])
keep_prob = tf.placeholder(tf.float32)

x_image = tf.reshape(x, [-1, 28, 28, 1])
h_conv1 = tf.nn.relu(conv2d(x_image, weight_variable([5, 5, 1, 16])) + bias_variable([16]))
h_pool1 = max_pool_2x2(h_conv1)
h_conv2 = tf.nn.relu(conv2d(h_pool1, weight_variable([5, 5, 16, 32])) + bias_variable([32]))
h_pool2 = max_pool_2x2(h_conv2)
h_flat = tf.reshape(h_pool2, [-1, 7 * 7 * 32])
h_fc1 = tf.nn.relu(tf.matmul(h_flat, weight_variable([7 * 7 * 32, 128])) + bias_variable([128]))
h_drop = tf.nn.dropout(h_fc1, keep_prob)
y_conv = tf.matmul(h_drop, weight_variable([128, 10])) + bias_variable([10])

cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y_conv))
train_step = tf.train.AdamOptimizer(1e-3).minimize(cross_entropy)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y_conv, 1), tf.argmax(y_, 1)), tf.float32))

sess = tf.InteractiveSession()
sess.run(tf.global_variables_initializer())
first = None
for i in range(8 if QUICK else 400):
    at = (i * 50) % len(images)
    batch = {x: images[at : at + 50], y_: labels[at : at + 50]}
    if i % 50 == 0:
        print("step", i, "accuracy", accuracy.eval(feed_dict={**batch, keep_prob: 1.0}))
    loss, _ = sess.run([cross_entropy, train_step], {**batch, keep_prob: 0.5})
    first = loss if first is None else first
print(f"loss {first:.3f} -> {loss:.3f}")
assert loss < first
sess.close()

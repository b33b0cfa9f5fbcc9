"""TensorFlow: arithmetic, a gradient, a compiled function."""

import tensorflow as tf  # type: ignore[import-not-found, import-untyped, unused-ignore]

print(len(tf.config.list_physical_devices("GPU")))
with tf.device("/GPU:0"):
    numbers = tf.range(1 << 20, dtype=tf.int64)
    print(int(tf.reduce_sum(numbers % 1009 * 3 + 1)))
    x = tf.Variable([2.0, 3.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(x * x * x)
    print(tape.gradient(y, x).numpy().tolist())
    triple = tf.function(lambda v: v * 3)
    print(int(tf.reduce_sum(triple(tf.ones([1 << 16], dtype=tf.int32)))))

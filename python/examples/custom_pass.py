"""A custom graph pass: every graph goes through it before compilation, whether it came from imperative code, a session
or ``jit``.

The logarithm of a softmax underflows for classes far from the largest. This pass replaces it by ``log_softmax``, which
does not: -inf becomes -200.
"""

import talweg as tw


def stabilize(y):
    """``log(softmax(x))`` becomes ``log_softmax(x)``. A softmax that is no longer used is pruned."""
    if y.op.name == "log" and (inner := y.op.inputs[0].op) and inner.name == "softmax":
        return inner.inputs[0].log_softmax(inner.attrs["axis"])
    return None


x = tw.tensor([[0.0, 200.0]])
print("without the pass:", x.softmax(-1).log())

tw.add_pass("stabilize", stabilize)
y = x.softmax(-1).log()
print(f"the graph:\n{tw.graph(y)}")
print("with the pass:", y)
assert y.tolist() == [[-200.0, 0.0]]

# Compiled functions and sessions go through it too.
assert tw.jit(lambda x: x.softmax(-1).log())(x).tolist() == [[-200.0, 0.0]]
given = tw.placeholder("float32", [1, 2])
assert tw.Session().run(given.softmax(-1).log(), {given: x}).tolist() == [[-200.0, 0.0]]

# A rule that gives a value of another type is found out before anything runs.
tw.add_pass("careless", lambda y: y.sum() if y.op.name == "mul" else None)
try:
    (x * x).tolist()
except tw.ShapeError as e:
    print(e)

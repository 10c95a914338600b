"""The core of Talweg rebuilt in one file: a tensor is a handle to a node of a graph, and everything else is a function
from graph to graph or a place to run one. The names are those of the Rust crates.

It trains a perceptron to separate two moons: all 400 points are right after 300 steps. A step, with its gradients and
updates, is one plan, which is made once. NumPy is the device.
"""

import itertools
import math
import sys
from typing import NamedTuple

import numpy as np

# ---- The op table: one row an op, which says all that is known of it.


class Row(NamedTuple):
    name: str
    kernel: object  # of the operands and the shape of the result
    gradient: object  # gradients of the inputs, from the result, the inputs and the gradient of the result
    is_elementwise: bool = False


def scalar(name, f, gradient):
    return Row(name, lambda shape, *xs: f(*xs), gradient, True)


LEAF = Row("leaf", None, None)
ADD = scalar("add", np.add, lambda y, x, g: [g, g])
SUB = scalar("sub", np.subtract, lambda y, x, g: [g, 0 - g])
MUL = scalar("mul", np.multiply, lambda y, x, g: [g * x[1], g * x[0]])
DIV = scalar("div", np.divide, lambda y, x, g: [g / x[1], 0 - g * y / x[1]])
EXP = scalar("exp", np.exp, lambda y, x, g: [g * y])
LOG = scalar("log", np.log, lambda y, x, g: [g / x[0]])
STEP = scalar("step", lambda a: (a > 0).astype(np.float32), lambda y, x, g: [g * 0])
# A broadcast is a way to read an operand: it costs nothing and runs with its neighbors.
BROADCAST = Row("broadcast", lambda shape, a: np.broadcast_to(a, shape), lambda y, x, g: [g.sum_to(x[0].shape)], True)
TRANSPOSE = Row("transpose", lambda shape, a: a.T, lambda y, x, g: [g.t()])
MATMUL = Row("matmul", lambda shape, a, b: a @ b, lambda y, x, g: [g.matmul(x[1].t()), x[0].t().matmul(g)])


def add_up(shape, a):
    return a.sum(tuple(i for i in range(2) if shape[i] == 1 and a.shape[i] > 1), keepdims=True)


SUM = Row("sum", add_up, lambda y, x, g: [g.broadcast(x[0].shape)])

# ---- Tensors: handles to nodes.

numbers = itertools.count()


class Tensor:
    """Everything is a matrix here: rows and columns."""

    def __init__(self, row, inputs, shape, value=None):
        self.number = next(numbers)  # the order of the program, in which every node comes after its inputs
        self.row, self.inputs, self.shape, self.value = row, inputs, shape, value

    @staticmethod
    def of(x):
        if isinstance(x, Tensor):
            return x
        x = np.atleast_2d(np.asarray(x, np.float32))
        return Tensor(LEAF, (), x.shape, x)

    def _apply(self, row, inputs, shape):
        """An op checks shapes at once and adds a node; a bad call names the caller's line."""
        if shape is None:
            frame = sys._getframe(2)
            shapes = ", ".join(str(t.shape) for t in inputs)
            raise ValueError(f"{frame.f_code.co_filename}:{frame.f_lineno}: {row.name}: {shapes} do not fit")
        return Tensor(row, inputs, shape)

    def _both(self, row, other):
        other = Tensor.of(other)
        shape = tuple(max(a, b) for a, b in zip(self.shape, other.shape))
        a, b = self.broadcast(shape), other.broadcast(shape)
        return self._apply(row, (a, b), shape)

    def broadcast(self, shape):
        if self.shape == shape:
            return self
        fits = all(a in (1, b) for a, b in zip(self.shape, shape))
        return self._apply(BROADCAST, (self,), shape if fits else None)

    def sum_to(self, shape):
        if self.shape == shape:
            return self
        fits = all(b in (1, a) for a, b in zip(self.shape, shape))
        return self._apply(SUM, (self,), shape if fits else None)

    def matmul(self, other):
        (m, k), (l, n) = self.shape, other.shape
        return self._apply(MATMUL, (self, other), (m, n) if k == l else None)

    def t(self):
        return self._apply(TRANSPOSE, (self,), self.shape[::-1])

    def exp(self):
        return self._apply(EXP, (self,), self.shape)

    def log(self):
        return self._apply(LOG, (self,), self.shape)

    def relu(self):
        return self * self._apply(STEP, (self,), self.shape)

    __add__ = lambda self, other: self._both(ADD, other)
    __sub__ = lambda self, other: self._both(SUB, other)
    __rsub__ = lambda self, other: Tensor.of(other)._both(SUB, self)
    __mul__ = lambda self, other: self._both(MUL, other)
    __truediv__ = lambda self, other: self._both(DIV, other)

    def values(self):
        """Looking at a value computes it."""
        evaluate([self])
        return self.value


def nodes_of(roots, through=lambda t: True):
    """The nodes that the roots need, in the order of the program; ``through`` says where to look on."""
    seen, open_ = {}, list(roots)
    while open_:
        t = open_.pop()
        if t.number not in seen:
            seen[t.number] = t
            open_.extend(t.inputs if through(t) else ())
    return [seen[n] for n in sorted(seen)]


# ---- Differentiation: a function from graph to graph.


def grad(of, against):
    """Walks the nodes against the order of the program, calls the rows' rules, adds up."""
    found = {of.number: Tensor.of(1.0)}
    for node in reversed(nodes_of([of])):
        if node.number not in found or node.row is LEAF:
            continue
        for x, g in zip(node.inputs, node.row.gradient(node, node.inputs, found[node.number])):
            found[x.number] = found[x.number] + g if x.number in found else g
    return [found[t.number] for t in against]


# ---- Plans: what is run. A plan is made once for each structure of a graph.

plans = {}


def evaluate(tensors):
    """Computes tensors together."""
    roots = [t for t in tensors if t.value is None]
    nodes = nodes_of(roots, lambda t: t.value is None)
    known = [t for t in nodes if t.value is not None]
    open_ = [t for t in nodes if t.value is None]
    place = {t.number: i for i, t in enumerate(known + open_)}
    # The structure: which op, which shape, which inputs. Values are not part of it.
    steps = tuple((t.row, t.shape, tuple(place[x.number] for x in t.inputs)) for t in open_)
    key = (tuple(t.shape for t in known), steps, tuple(place[t.number] for t in roots))
    if key not in plans:
        plans[key] = compile_plan(len(known), steps, key[2])
    for root, value in zip(roots, run(plans[key], [t.value for t in known])):
        root.value = value


class Plan(NamedTuple):
    steps: list  # rows with shapes, operands and the register they write, those of one loop together
    registers: int
    results: tuple


def compile_plan(first, nodes, roots):
    """Elementwise ops of one shape that follow each other are one step; registers are used again after the last use."""
    last = {place: i for i, (_, _, inputs) in enumerate(nodes) for place in inputs}
    last |= {place: len(nodes) for place in roots}
    steps, register, free, count = [], {}, [], first
    for i, (row, shape, inputs) in enumerate(nodes):
        if free:
            register[first + i] = free.pop()
        else:
            register[first + i], count = count, count + 1
        code = (row, shape, [register.get(p, p) for p in inputs], register[first + i])
        is_joined = steps and row.is_elementwise and steps[-1][-1][0].is_elementwise and steps[-1][-1][1] == shape
        if is_joined:
            steps[-1].append(code)
        else:
            steps.append([code])
        free.extend(register[p] for p in set(inputs) if p >= first and last[p] == i)
    return Plan(steps, count, tuple(register[p] for p in roots))


def run(plan, inputs):
    registers = inputs + [None] * (plan.registers - len(inputs))
    for step in plan.steps:
        for row, shape, operands, into in step:
            registers[into] = row.kernel(shape, *(registers[r] for r in operands))
    return [registers[r] for r in plan.results]


# ---- A program.


def scores(params, x):
    w1, b1, w2, b2 = params
    return (x.matmul(w1) + b1).relu().matmul(w2) + b2


def loss_of(params, x, classes):
    """Mean of -log p(class); the classes are rows with a 1."""
    s = scores(params, x)
    rows = s.shape[0]
    logs = s - s.exp().sum_to((rows, 1)).log()
    return 0 - (logs * classes).sum_to((1, 1)) / float(rows)


def moons(n):
    """Two half circles that reach into each other."""
    points, classes = [], []
    for i in range(n):
        x, y = math.cos(i / n * math.pi), math.sin(i / n * math.pi)
        points.append([x, y] if i % 2 == 0 else [1 - x, 0.4 - y])
        classes.append([1 - i % 2, i % 2])
    return Tensor.of(points), Tensor.of(classes)


def check_gradient(params, x, classes):
    """The gradient of a few weights against finite differences."""
    (gradient,) = grad(loss_of(params, x, classes), [params[2]])
    for at in [(0, 0), (8, 1), (20, 0)]:

        def loss_with(change):
            w = params[2].values().copy()
            w[at] += change
            return loss_of([*params[:2], Tensor.of(w), params[3]], x, classes).values().item()

        slope = (loss_with(0.05) - loss_with(-0.05)) / 0.1
        assert abs(slope - gradient.values()[at]) < 1e-3, f"{slope} by differences, {gradient.values()[at]} by rules"


random = np.random.default_rng(1)
x, classes = moons(400)
params = [Tensor.of(random.uniform(-1, 1, (2, 32))), Tensor.of(np.zeros((1, 32)))]
params += [Tensor.of(random.uniform(-1, 1, (32, 2))), Tensor.of(np.zeros((1, 2)))]

# A wrong program says where it is wrong.
try:
    params[0].matmul(x)
except ValueError as e:
    print(e)
check_gradient(params, x, classes)

plans.clear()
for step in range(301):
    loss = loss_of(params, x, classes)
    updated = [p - g * 0.5 for p, g in zip(params, grad(loss, params))]
    evaluate([*updated, loss])
    params = [Tensor.of(p.value) for p in updated]
    if step % 100 == 0:
        print(f"step {step:3}: loss {loss.value.item():.4f}")
(plan,) = plans.values()
print(f"1 plan: {sum(map(len, plan.steps))} ops in {len(plan.steps)} steps, {plan.registers} registers")
right = (scores(params, x).values().argmax(1) == classes.values().argmax(1)).sum()
print(f"{right} of {len(classes.values())} points are right")
assert right >= 390, "the network learns the moons"

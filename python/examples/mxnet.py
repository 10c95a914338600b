"""The MXNet example: B and C depend only on A, so they may run in parallel. Nothing runs before D is read, and B, C and D
are fused into one pass over A."""

import talweg as tw


@tw.jit
def program(ones):
    a = ones * 2
    c = a + 2
    b = a + 1
    return b * c


ones = tw.ones(2, 2)
print(program(ones))
print(program.explain(ones))
print(program.graph(ones))
assert program(ones).tolist() == [[12.0, 12.0], [12.0, 12.0]]

"""A program as plain data: blocks of nodes."""

# mypy: ignore-errors


class Type:
    """An element type by its name, and sizes; `None` for a size that is not known."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape

    def __repr__(self):
        return f"{self.dtype}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"


class Node:
    """One operator: numbers of the values that it reads and makes, and what it is given beside them."""

    __slots__ = ("name", "inputs", "outputs", "types", "attrs", "blocks", "line", "source")

    def __init__(self, name, inputs, outputs, types, attrs, blocks, line, source=("", "")):
        self.name, self.inputs, self.outputs, self.types = name, inputs, outputs, types
        # The line of the user's program; JAX's name of the function that made it, and where.
        self.attrs, self.blocks, self.line, self.source = attrs, blocks, line, source

    @property
    def shape(self):
        return self.types[0].shape

    @property
    def dtype(self):
        return self.types[0].dtype


class Block:
    """Nodes in order: a function's body, or that of a loop."""

    __slots__ = ("params", "types", "nodes", "results")

    def __init__(self, params, types):
        self.params, self.types, self.nodes, self.results = params, types, [], []

"""Containers of tensors: tuples, lists, dicts and named tuples, nested in any way."""

from ._native import Tensor

_LEAF = object()


def flatten(tree):
    """The leaves of a tree, and its form, from which ``unflatten`` makes it again.

    >>> leaves, form = flatten({"a": 1, "b": [2, 3]})
    >>> leaves, unflatten(form, [4, 5, 6])
    ([1, 2, 3], {'a': 4, 'b': [5, 6]})
    """
    leaves = []
    return leaves, _form(tree, leaves)


def _form(tree, leaves):
    if isinstance(tree, (tuple, list)):
        return type(tree), None, [_form(x, leaves) for x in tree]
    if isinstance(tree, dict):
        return type(tree), list(tree), [_form(x, leaves) for x in tree.values()]
    leaves.append(tree)
    return _LEAF


def unflatten(form, leaves):
    """The tree of a form with these leaves."""
    return _build(form, iter(leaves))


def _build(form, leaves):
    if form is _LEAF:
        return next(leaves)
    kind, keys, parts = form
    made = [_build(p, leaves) for p in parts]
    if keys is not None:
        try:
            return kind(zip(keys, made))
        except TypeError:
            return dict(zip(keys, made))
    return kind(*made) if hasattr(kind, "_fields") else kind(made)


def tree_map(f, tree, *others):
    """``f`` of each leaf, in the same form."""
    leaves, form = flatten(tree)
    more = [flatten(o)[0] for o in others]
    return unflatten(form, [f(*xs) for xs in zip(leaves, *more)])


def of_prefix(prefix, form):
    """One leaf of ``prefix`` for each leaf of the form: a prefix has a leaf where the form has a subtree."""
    if form is _LEAF or not isinstance(prefix, (tuple, list, dict)):
        return [prefix] * _count(form)
    _, keys, parts = form
    items = list(prefix.values()) if isinstance(prefix, dict) else list(prefix)
    if keys is not None and isinstance(prefix, dict):
        items = [prefix.get(k, _LEAF) for k in keys]
    if len(items) != len(parts) or any(i is _LEAF for i in items):
        return None
    out = []
    for item, part in zip(items, parts):
        below = of_prefix(item, part)
        if below is None:
            return None
        out += below
    return out


def _count(form):
    return 1 if form is _LEAF else sum(map(_count, form[2]))


def tensors(leaves):
    """The tensors among some leaves."""
    return [x for x in leaves if isinstance(x, Tensor)]

"""What the tables of other libraries' operators share."""

# mypy: ignore-errors
from . import _native


class Unsupported(Exception):
    """An operator, or a form of one, that has no row here."""


def need(condition, why):
    if not condition:
        raise Unsupported(why)


def apply(name, inputs, **settings):
    """The results of an op of the table, also of one that is no method, such as a gradient."""
    return _native.apply_row(name, list(inputs), settings)


def one(name, inputs, **settings):
    return apply(name, inputs, **settings)[0]

"""The in-place twins of functions: ``x.exp_()`` writes ``x.exp()`` to ``x``, or to what ``x`` is a view of."""

from typing import TYPE_CHECKING, Any

from .._checked import checked

if TYPE_CHECKING:
    from .. import Tensor
else:
    from .._native import Tensor

IN_PLACE = """abs add clamp div exp masked_fill mul neg relu round sqrt sub"""


def _in_place(name: str) -> Any:
    op = getattr(Tensor, name)

    def change(self: Any, *args: Any, **settings: Any) -> Any:
        return self.copy_(op(self, *args, **settings))

    change.__name__, change.__qualname__, change.__doc__ = name + "_", f"Tensor.{name}_", f"``{name}``, in place."
    return checked(change)


def install() -> None:
    """Gives ``Tensor`` the methods, when all functions are there."""
    for name in IN_PLACE.split():
        setattr(Tensor, name + "_", _in_place(name))

"""NVIDIA GPUs.

>>> tw.backends.cuda.matmul.allow_tf32 = True
>>> tw.get_float32_matmul_precision()
'high'
>>> tw.backends.cuda.matmul.allow_tf32 = False
"""

from __future__ import annotations

from .. import _native
from .._checked import type_error


class _Matmul:
    """How matrices are multiplied."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of ``float32`` may use TF32."""
        return _native.get_switch("matmul_tf32")

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise type_error(f"backends.cuda.matmul.allow_tf32: expected True or False, not {value!r}")
        _native.set_switch("matmul_tf32", value)

    def __setattr__(self, name: str, value: object) -> None:
        if name != "allow_tf32":
            raise AttributeError(f"backends.cuda.matmul has no switch {name!r}: there is allow_tf32")
        super().__setattr__(name, value)


matmul = _Matmul()


def is_built() -> bool:
    """True: the package can use GPUs wherever the driver is."""
    return True


__all__ = ["is_built", "matmul"]

from typing import Any

from . import Tensor as Tensor
from . import Update as Update
from . import dtype as dtype

def __getattr__(name: str) -> Any: ...

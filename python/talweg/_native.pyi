"""The native module. Its public classes and functions have their types in the package's stubs."""

from typing import Any

from . import Graph as Graph, Tensor as Tensor, Update as Update, dtype as dtype

__version__: str

class Jit:
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def explain(self, *args: Any, **kwargs: Any) -> str: ...
    def graph(self, *args: Any, **kwargs: Any) -> Graph: ...
    def frozen(self) -> Jit: ...
    @property
    def traces(self) -> int: ...

class CustomOp:
    def __init__(self, name: str, kernel: Any, types: Any, fake: Any, gradient: Any, cuda: Any, vmap_method: str) -> None: ...
    def __call__(self, inputs: list[Any], ordered: bool) -> list[Tensor]: ...

class Accuracy:
    """Share of examples whose highest score is the target."""
    def __init__(self) -> None: ...
    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Adds a batch."""
    def value(self) -> float:
        """The figure so far."""

class Auc:
    """Area under the receiver operating characteristic."""
    def __init__(self) -> None: ...
    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Adds a batch."""
    def value(self) -> float:
        """The figure so far."""

class Confusion:
    """How often each class was taken for each other."""
    def __init__(self, classes: int) -> None: ...
    def accuracy(self) -> float:
        """Share of right predictions."""
    def f1(self, average: str = 'macro') -> float:
        """The harmonic mean of precision and recall: `macro`, `micro` or `weighted`."""
    def precision(self, class_: int) -> float:
        """Of the examples predicted as a class, the share that is."""
    def recall(self, class_: int) -> float:
        """Of the examples of a class, the share predicted as it."""
    def tensor(self) -> Tensor:
        """Counts, a row for each true class."""
    def update(self, predicted: Tensor, targets: Tensor) -> None:
        """Adds a batch of predicted and true classes."""

class Perplexity:
    """The exponential of the mean loss of a token."""
    def __init__(self) -> None: ...
    def update(self, loss: float, tokens: int) -> None:
        """Adds a mean loss over `tokens`."""
    def value(self) -> float:
        """The figure so far."""

class TopK:
    """Share of examples whose target is among the `k` highest scores."""
    def __init__(self, k: int = ...) -> None: ...
    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Adds a batch."""
    def value(self) -> float:
        """The figure so far."""

def graph(*tensors: Any) -> Graph: ...
def check_numerics(on: bool) -> bool: ...
def located(what: str) -> str: ...
def main(python: str, own: list[str], args: list[str]) -> int: ...
def devices() -> list[str]: ...
def current_device() -> str: ...
def get_switch(name: str) -> bool: ...
def get_num_threads() -> int: ...
def device_memory(device: str) -> tuple[int, int, int] | None: ...
def free_and_total(device: str) -> tuple[int, int] | None: ...
def device_properties(number: int) -> dict[str, Any]: ...
def __getattr__(name: str) -> Any: ...

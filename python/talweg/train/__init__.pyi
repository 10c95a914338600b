"""Training: the loop around a step, with checkpoints and progress; TensorFlow's names of optimizers."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from .. import Tensor
from .. import dtype
from .. import DTypeLike
from .. import Update
from ..nn import Module
from ..utils.data import Subset

class Callback:
    """Hears of a run; a subclass overrides what it wants. ``trainer.stop()`` ends the run after the step."""
    def on_begin(self, trainer: Trainer) -> None:
        """The run begins."""
    def on_end(self, trainer: Trainer) -> None:
        """The run has ended."""
    def on_epoch(self, trainer: Trainer) -> None:
        """All batches were used once more."""
    def on_evaluate(self, trainer: Trainer, figures: dict[str, float]) -> None:
        """The model was evaluated; ``figures`` is a dict."""
    def on_step(self, trainer: Trainer, loss: float) -> None:
        """A step was done."""

class History:
    """Losses and figures of a run, and how it ended. In a notebook it shows its curves."""
    losses: list[tuple[int, float]]
    evaluations: list[tuple[int, dict[str, float]]]
    stop: str
    best: tuple[float, int] | None
    checkpoint: str | None
    def __init__(self) -> None: ...
    def series(self) -> dict[str, list[tuple[int, float]]]:
        """The curves by name: lists of ``(step, value)``."""
    def svg(self) -> str:
        """The curves as SVG text."""

class Optimizer:
    """Makes the update that lowers a loss; the variables are those it depends on."""
    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]
    def __init__(self, learning_rate: float, **settings: Any) -> None: ...
    def minimize(self, loss: Tensor, var_list: Sequence[Tensor] | None = None) -> Update:
        """The update of one step, for ``Session.run``. A loss of several elements is summed."""

class Silent:
    """Reports nothing. A custom reporter is a subclass that overrides some of these methods."""
    def begin(self, trainer: Trainer) -> None:
        """The run begins."""
    def end(self, trainer: Trainer) -> None:
        """The run has ended."""
    def evaluated(self, trainer: Trainer, figures: dict[str, float]) -> None:
        """The model was evaluated."""
    def step(self, trainer: Trainer, loss: float) -> None:
        """A step was done."""
    def warn(self, text: str) -> None:
        """Something is wrong, but the run goes on."""

class Trainer:
    """Trains ``model`` on the batches of ``loader``, any iterable of them.

    ``fit(loss)`` calls ``loss`` with the parts of each batch and minimizes it.

    >>> import talweg as tw
    >>> model = tw.nn.Linear(1, 1)
    >>> x = tw.linspace(-1, 1, 64).reshape(64, 1)
    >>> loader = tw.utils.data.DataLoader((x, 3 * x), batch_size=16, shuffle=True)
    >>> optimizer = tw.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = Trainer(model, optimizer, loader, epochs=20, progress=False)
    >>> history = trainer.fit(lambda x, y: (model(x) - y).square().mean())
    >>> history.stop, trainer.step, history.losses[-1][1] < 0.1
    ('done', 80, True)

    - ``epochs`` or ``steps``: how long, steps before a resume included.
    - ``evaluate``: a function of no arguments that returns a dict of figures; called every ``evaluate_every``
      steps (0: after each epoch) and after the last, with the model in inference and without gradients.
    - ``watch``: the figure that decides which model is best, with ``maximize``; ``patience``: stop after so many
      evaluations without a new best.
    - ``schedule``: a learning-rate scheduler. ``ReduceLROnPlateau`` receives the watched figure.
    - ``clip_norm``, ``clip_value``: bounds of the gradients.
    - ``checkpoints``: a folder, or ``s3://BUCKET/PREFIX``; saved every ``save_every`` steps (0: after each epoch), after the last, when
      stopped, and after a new best if ``keep_best`` is not 0. The last ``keep_last`` stay.
    - ``journal``: a file of JSON lines; ``events``: a folder for TensorBoard.
    - ``jit``: trace the step once and replay it; the fastest way to train.
    - ``callbacks``: reporters of the run. ``progress``: true, false, or a custom reporter.

    Ctrl-C ends the run after the current step, saves a checkpoint and returns; a second one raises at once.

    Under ``talweg launch`` each worker gets its shard of every batch, a replacement continues where the lost worker
    was, and only the lowest active rank writes files. The state of ``callbacks`` is lost when a worker is replaced."""
    model: Module
    optimizer: Any
    loader: Iterable[Any]
    callbacks: list[Callback]
    history: History
    step: int
    epoch: int
    def __init__(self, model: Module, optimizer: Any, loader: Iterable[Any], *, epochs: int | None = None, steps: int | None = None, evaluate: Callable[[], Mapping[str, Any]] | None = None, evaluate_every: int = 0, watch: str | None = None, maximize: bool = False, patience: int | None = None, schedule: Any = None, clip_norm: float | None = None, clip_value: float | None = None, checkpoints: str | PathLike[str] | None = None, save_every: int = 0, keep_last: int = 3, keep_best: int = 0, journal: str | PathLike[str] | None = None, events: str | PathLike[str] | None = None, jit: bool = False, callbacks: Sequence[Callback] = ..., progress: bool | Silent = True) -> None: ...
    @property
    def at_epoch_end(self) -> Any: ...
    def fit(self, loss: Callable[..., Tensor]) -> History:
        """Trains until the end; returns the history.

        ``loss`` gets the parts of a batch that is a tuple or a list, the values of a dict by name, or the batch
        itself."""
    def resume(self) -> int | None:
        """Continues from the newest whole checkpoint; its step, or ``None`` if there is none yet."""
    def stop(self) -> None:
        """Ends the run after the present step."""
    @property
    def total(self) -> int | None: ...

class AdadeltaOptimizer(Optimizer):
    """TensorFlow's ``AdadeltaOptimizer``."""
    def __init__(self, learning_rate: float = 0.001, **settings: Any) -> None: ...

class AdagradOptimizer(Optimizer):
    """TensorFlow's ``AdagradOptimizer``."""
    def __init__(self, learning_rate: float = 0.001, **settings: Any) -> None: ...

class AdamOptimizer(Optimizer):
    """TensorFlow's ``AdamOptimizer``."""
    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08) -> None: ...

class GradientDescentOptimizer(Optimizer):
    """TensorFlow's ``GradientDescentOptimizer``."""
    def __init__(self, learning_rate: float = 0.001, **settings: Any) -> None: ...

class MomentumOptimizer(Optimizer):
    """TensorFlow's ``MomentumOptimizer``."""
    def __init__(self, learning_rate: float = 0.001, **settings: Any) -> None: ...

class Progress(Silent):
    """A bar in a terminal or a notebook; where neither is, a line at each evaluation and at the end."""
    def __init__(self, out: IO[str] | None = None) -> None: ...
    def begin(self, trainer: Trainer) -> None:
        ...
    def end(self, trainer: Trainer) -> None:
        ...
    def evaluated(self, trainer: Trainer, figures: dict[str, float]) -> None:
        ...
    def step(self, trainer: Trainer, loss: float) -> None:
        ...

class RMSPropOptimizer(Optimizer):
    """TensorFlow's ``RMSPropOptimizer``."""
    def __init__(self, learning_rate: float = 0.001, **settings: Any) -> None: ...

def curves(series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over steps as SVG text: ``series`` maps names to lists of ``(step, value)``.

    >>> curves({"loss": [(1, 2.0), (2, 1.0)]}).startswith("<svg")
    True"""
def load_checkpoint(path: str | PathLike[str], part: str = 'model') -> dict[str, Tensor]:
    """The tensors of a part of a checkpoint, by name: ``model.load_state_dict(load_checkpoint(path))``.

    ``path`` is a file or a URL such as ``History.checkpoint``; files that servers of the parameter store have written
    beside it are read as well, and everything is checked. Parts are ``"model"``, what a module calls some of it
    (``"model.encoder"``), or ``"optimizer"``."""

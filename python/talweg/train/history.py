"""Callbacks of a run (``Callback``) and its record (``History``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .curves import curves

if TYPE_CHECKING:
    from .trainer import Trainer


class Callback:
    """Callbacks of a run; a subclass overrides some. ``trainer.stop()`` ends the run after the step."""

    def on_begin(self, trainer: Trainer) -> None:
        """The run begins."""

    def on_step(self, trainer: Trainer, loss: float) -> None:
        """A step was done."""

    def on_evaluate(self, trainer: Trainer, figures: dict[str, float]) -> None:
        """The model was evaluated; ``figures`` is a dict of metrics."""

    def on_epoch(self, trainer: Trainer) -> None:
        """An epoch has ended."""

    def on_end(self, trainer: Trainer) -> None:
        """The run has ended."""


class History:
    """Losses and metrics of a run, and how it ended. In a notebook it shows its curves."""

    losses: list[tuple[int, float]]
    evaluations: list[tuple[int, dict[str, float]]]
    stop: str
    best: tuple[float, int] | None
    checkpoint: str | None

    def __init__(self) -> None:
        self.losses = []
        self.evaluations = []
        self.stop = "not begun"
        self.best = None
        self.checkpoint = None

    def series(self) -> dict[str, list[tuple[int, float]]]:
        """The curves by name: lists of ``(step, value)``."""
        out = {"loss": list(self.losses)}
        for step, figures in self.evaluations:
            for name, value in figures.items():
                out.setdefault(name, []).append((step, value))
        return out

    def svg(self) -> str:
        """The curves as SVG text."""
        return curves(self.series())

    _repr_svg_ = svg

    def __repr__(self) -> str:
        steps = f"{self.losses[-1][0]} steps, loss {self.losses[-1][1]:.4g}" if self.losses else "no steps"
        best = f", best {self.best[0]:.4g} at step {self.best[1]}" if self.best else ""
        return f"History({self.stop}: {steps}{best})"

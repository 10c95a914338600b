"""Reporters of a run: a bar in a terminal or a notebook, lines in a file, or none."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

    from ..train.trainer import Trainer

BAR = 24
EVERY_SECONDS = 0.1


class Silent:
    """Reports nothing. A custom reporter is a subclass that overrides some of these methods."""

    def begin(self, trainer: Trainer) -> None:
        """The run begins."""

    def step(self, trainer: Trainer, loss: float) -> None:
        """A step was done."""

    def evaluated(self, trainer: Trainer, figures: dict[str, float]) -> None:
        """The model was evaluated."""

    def warn(self, text: str) -> None:
        """A warning; the run continues."""
        sys.stderr.write(f"warning: {text}\n")

    def end(self, trainer: Trainer) -> None:
        """The run has ended."""


def in_notebook():
    """True if a notebook shows what is displayed."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _clock(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Progress(Silent):
    """A bar in a terminal or a notebook; where neither is, a line at each evaluation and at the end."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out or sys.stderr
        self._is_terminal = bool(getattr(self._out, "isatty", lambda: False)())
        self._display = None
        self._shown = 0.0
        self._width = 0

    def begin(self, trainer: Trainer) -> None:
        self._start, self._first = time.monotonic(), trainer.step
        if in_notebook():
            from IPython.display import HTML, display

            self._html = HTML
            self._display = display(HTML(self._bar_html(trainer)), display_id=True)

    def _figures(self, trainer):
        history = trainer.history
        parts = [f"loss {history.losses[-1][1]:.4g}"] if history.losses else []
        if history.evaluations:
            parts += [f"{n} {x:.4g}" for n, x in history.evaluations[-1][1].items()]
        return ", ".join(parts)

    def _line(self, trainer):
        done, total = trainer.step, trainer.total
        spent = time.monotonic() - self._start
        speed = (done - self._first) / spent if spent > 0 else 0.0
        text = f"epoch {trainer.epoch if trainer.at_epoch_end else trainer.epoch + 1}, step {done}"
        if total:
            text += f" of {total}"
            if speed > 0:
                text += f", {_clock((total - done) / speed)} left"
        return f"{text}, {speed:.3g} steps/s"

    def _bar_html(self, trainer):
        total = trainer.total
        bar = f'<progress value="{trainer.step}" max="{total}" style="width:20em"></progress> ' if total else ""
        return f"{bar}<code>{html.escape(self._line(trainer))} {html.escape(self._figures(trainer))}</code>"

    def _draw(self, trainer):
        if self._display is not None:
            self._display.update(self._html(self._bar_html(trainer)))
        elif self._is_terminal:
            share = trainer.step / trainer.total if trainer.total else 0.0
            full = int(BAR * min(share, 1.0))
            bar = f"[{'█' * full}{'·' * (BAR - full)}] " if trainer.total else ""
            line = f"{bar}{self._line(trainer)}, {self._figures(trainer)}"
            # What the last line had more is wiped out.
            self._out.write("\r" + line.ljust(self._width))
            self._out.flush()
            self._width = len(line)

    def step(self, trainer: Trainer, loss: float) -> None:
        now = time.monotonic()
        if now - self._shown >= EVERY_SECONDS:
            self._shown = now
            self._draw(trainer)

    def evaluated(self, trainer: Trainer, figures: dict[str, float]) -> None:
        if self._display is None and not self._is_terminal:
            self._out.write(f"{self._line(trainer)}: {self._figures(trainer)}\n")

    def end(self, trainer: Trainer) -> None:
        if self._display is not None:
            self._display.update(self._html(self._bar_html(trainer) + trainer.history.svg()))
            return
        self._draw(trainer)
        if self._is_terminal:
            self._out.write("\n")
        else:
            self._out.write(f"{trainer.history.stop}: {self._line(trainer)}: {self._figures(trainer)}\n")
        self._out.flush()

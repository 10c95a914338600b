"""``Trainer``: the loop around a training step. It reads batches, steps, evaluates, logs, saves, stops and resumes; the
caller defines the loss. What follows a step is decided by a state machine, ``_native.Run``, which Rust's trainer drives
as well: meeting other workers, recovery, checkpoints and early stopping exist once.

A resumed run continues bit for bit: everything that decides what the next step does (model, optimizer, random
state, position in the data, schedule, best score so far) is in the checkpoint.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import _native, distributed, errors
from .._checked import checked, type_error, value_error
from .._native import Tensor
from .._state import no_grad
from .._transforms import jit as _jit
from ..nn.module import Module
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..optim.native import NativeOptimizer
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from . import saved
from .history import Callback, History
from .progress import Progress, Silent


class Trainer:
    """Trains ``model`` on the batches of ``loader``, any iterable of them.

    ``fit(loss)`` calls ``loss`` with the parts of each batch and minimizes it.

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

    Checkpoints of Rust's trainer resume here, and those of this one there.

    Ctrl-C ends the run after the current step, saves a checkpoint and returns; a second one raises at once.

    Under ``talweg launch`` each worker gets its shard of every batch, a replacement continues where the lost worker
    was, and only the lowest active rank writes files. The state of ``callbacks`` is lost when a worker is replaced.
    """

    @checked
    def __init__(
        self,
        model: Module,
        optimizer: NativeOptimizer,
        loader: Iterable[Any],
        *,
        epochs: int | None = None,
        steps: int | None = None,
        evaluate: Callable[[], dict[str, float]] | None = None,
        evaluate_every: int = 0,
        watch: str | None = None,
        maximize: bool = False,
        patience: int | None = None,
        schedule: LRScheduler | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        checkpoints: str | os.PathLike[str] | None = None,
        save_every: int = 0,
        keep_last: int = 3,
        keep_best: int = 0,
        journal: str | os.PathLike[str] | None = None,
        events: str | os.PathLike[str] | None = None,
        jit: bool = False,
        callbacks: Iterable[Callback] = (),
        progress: bool | Silent = True,
    ) -> None:
        if epochs is not None and steps is not None:
            raise value_error("Trainer: epochs and steps say the same thing: give one of them")
        if not isinstance(optimizer, NativeOptimizer):
            known = "one of talweg.optim such as Adam, or a custom Rule"
            raise type_error(f"Trainer: expected {known}, not {type(optimizer).__name__}, as the optimizer")
        if not hasattr(loader, "__iter__"):
            raise type_error(f"Trainer: the loader is {type(loader).__name__}, not an iterable of batches")
        if watch is None and (patience is not None or keep_best or isinstance(schedule, ReduceLROnPlateau)):
            raise value_error("Trainer: patience, keep_best and a plateau need to know what to watch")
        if watch is not None and evaluate is None:
            raise value_error(f"Trainer: nothing is evaluated, so that {watch!r} cannot be watched")
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self._epochs, self._steps = (1 if epochs is None and steps is None else epochs), steps
        self._evaluate, self._watch, self._schedule = evaluate, watch, schedule
        self._clip = (clip_value, clip_norm)
        self._folder = None
        if checkpoints is not None:
            self._folder = _native.Checkpoints(os.fspath(checkpoints), keep_last, keep_best, maximize)
        self._run = _native.Run(
            epochs=self._epochs,
            steps=steps,
            evaluate=None if evaluate is None else evaluate_every,
            save=None if checkpoints is None else save_every,
            keeps_best=keep_best > 0,
            maximize=maximize,
            patience=patience,
        )
        self._journal, self._events, self._is_jit = journal, events, jit
        self.callbacks = list(callbacks)
        self.report = (Progress() if progress else Silent()) if isinstance(progress, bool) else progress
        self.history = History()
        self._stop = False
        self._order: Any = None  # the generator's state as this epoch began
        self._residuals: Any = None  # where this worker keeps the residuals of packed gradients
        self._beside: Any = None  # what this worker keeps beside a parameter store

    @property
    def step(self) -> int:
        """Steps done."""
        return self._run.step

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return self._run.epoch

    @property
    def total(self) -> int | None:
        """Steps in all, if they are known."""
        length = None if self._steps is not None else self._length()
        # Without a length it is known once an epoch has been counted.
        return self._run.total if length is None else length * self._epochs

    @property
    def at_epoch_end(self) -> bool:
        """True if the last step ended an epoch: ``epoch`` of them are done, and the next has not begun."""
        return self.step > 0 and self._run.batch == 0

    def stop(self) -> None:
        """Ends the run after the present step."""
        self._stop = True
        self._run.stop()

    def trained(self) -> list[Tensor]:
        """The parameters of the optimizer."""
        return [p for g in self.optimizer.param_groups for p in g["params"]]

    # Checkpoints.

    def _check_folder(self) -> None:
        later = self._folder.later(self.step)
        if later is not None:
            raise value_error(f"fit: the run is at step {self.step}, but there is {later} already: resume, or choose another folder")

    def _save(self, score: float | None, is_last: bool) -> None:
        self.history.best = self._run.best
        # Another worker may have ended before this one came to write files. On a mesh all save.
        is_alone = not _native.worker_is_on_mesh()
        if is_alone and distributed.rank() > 0 and any(s >= self.step for s in self._folder.steps()):
            return
        state, native = saved.variables(self), self.optimizer._native
        path = self._folder.save(self.step, state, saved.notes(self), saved.position(self), score, native, is_last)
        if path is not None:
            self._run.note_saved()
            self.history.checkpoint = path
        self._warn_given_up()

    def _save_last(self) -> None:
        """Saves what is not saved yet and waits until it is on disk: a run that could not write its last checkpoint
        has failed."""
        if self._folder is not None:
            if self._run.saved != self.step and _native.worker_saves_checkpoints():
                self._save(None, True)
            self._folder.wait()
            self._warn_given_up()

    def _warn_given_up(self) -> None:
        for reason in self._folder.given_up():
            self.report.warn(f"a checkpoint was given up: {reason}")

    def _load_residuals(self) -> None:
        self._residuals = self._folder.residuals(self.step)

    def _save_residuals(self) -> None:
        if self._residuals is not None:
            self._residuals.keep(self.step)

    def resume(self) -> int | None:
        """Continues from the newest complete checkpoint, of this trainer or of Rust's; returns its step, or ``None`` if
        there is none yet."""
        if self._folder is None:
            raise value_error("resume: there is no folder of checkpoints")
        found = self._folder.latest()
        if found is None:
            return None
        held, path, refused = found
        for reason in refused:
            self.report.warn(f"a checkpoint was passed over: {reason}")
        saved.restore(self, *held)
        self.history.checkpoint = path
        return self.step

    # Among other workers.

    def _agree(self) -> None:
        """Compares what all workers must agree on before the first step."""
        if distributed.is_initialized() and not self._run.has_store:
            e = "Trainer shards batches and averages gradients itself: leave out init_process_group and DistributedDataParallel"
            raise value_error(e)
        source = getattr(self.loader, "dataset", None)
        samples = len(source) if hasattr(source, "__len__") else None
        settings = [("workers", distributed.world_size()), ("samples", samples), ("batches of an epoch", self._length())]
        settings += [("batch size", getattr(self.loader, "batch_size", None)), ("clipping", self._clip)]
        if not self._run.has_store:
            # The store says itself where its workers begin, and may be taken up again with another optimizer.
            settings += [("step", self.step), ("seed of the shuffle", getattr(self.loader, "seed", None))]
            settings += [("optimizer", self.optimizer)]
        _native.worker_agree([(name, str(value)) for name, value in settings], self.optimizer._native)

    def _take_over(self) -> None:
        """Continues from the state that another worker, or this one's predecessor, handed over before a step."""
        step, generator, notes, tensors, at = _native.decode_checkpoint(distributed.meet(lambda: b""))
        if self._run.has_store:
            mine = dict(saved.variables(self))
            for name, value in tensors.items():
                mine[name].assign(value)
            saved.recall(self, step, generator, notes, at)
        else:
            saved.restore(self, step, generator, notes, tensors, at)

    def _give(self) -> bytes:
        """The state that decides the next step, except for the parameter store's."""
        state = saved.variables(self) if self._beside is None else self._beside
        return _native.encode_checkpoint(self.step, state, saved.notes(self), saved.position(self))

    def _seek(self) -> None:
        if self._length() is None:
            raise value_error("fit: a worker can take another's place only if the loader has a length")
        self._iterator = self._order = None

    def _part(self, batch: Any) -> tuple[Any, int]:
        """This worker's shard of a batch, and its number of samples."""
        if not self._has_others:
            return batch, 0
        if isinstance(batch, dict):
            batch = {k: distributed.shard(v) for k, v in batch.items()}
            first = next(iter(batch.values()))
        elif isinstance(batch, (tuple, list)):
            batch = [distributed.shard(v) for v in batch]
            first = batch[0]
        else:
            first = batch = distributed.shard(batch)
        return batch, len(first)

    # The run.

    def _descend(self, loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def step(*args: Any, **kwargs: Any) -> Tensor:
            value = loss(*args, **kwargs)
            if not isinstance(value, Tensor):
                raise type_error(f"fit: the loss is {type(value).__name__}, not a tensor")
            self.optimizer.zero_grad()
            value.backward()
            clip_value, clip_norm = self._clip
            if clip_value is not None:
                clip_grad_value_(self.trained(), clip_value)
            if clip_norm is not None:
                clip_grad_norm_(self.trained(), clip_norm)
            self.optimizer.step()
            return value

        return _jit(step) if self._is_jit else step

    def _batches(self) -> Iterator[Any]:
        """The batches from here on to the end of this epoch."""
        epoch, batch = self._run.epoch, self._run.batch
        if hasattr(self.loader, "batches_from"):
            yield from self.loader.batches_from(batch, epoch)
            return
        if batch == 0 or self._order is None:
            # A worker that replaces a lost one in the middle of an epoch finds the order of its beginning.
            _native.worker_draw_for(self.step - batch)
            self._order = _native.random_state()
            if hasattr(self.loader, "__next__") and epoch > 0:
                raise value_error("fit: the loader is an iterator that can be used once only; give a list or a DataLoader")
        if batch == 0:
            yield from self.loader
            return
        # The order of a shuffled epoch follows from the generator as it was when the epoch began.
        now = _native.random_state()
        _native.set_random_state(self._order)
        batches = iter(self.loader)
        for _ in range(batch):
            next(batches, None)
        _native.set_random_state(now)
        yield from batches

    def _length(self) -> int | None:
        """Batches of an epoch, if that is known before its end."""
        try:
            return len(self.loader)  # type: ignore[arg-type]
        except TypeError:
            return None

    def _next_batch(self) -> int | None:
        """Reads a batch; the number of batches of the epoch (-1: unknown), or ``None`` at its end."""
        if self._iterator is None:
            self._iterator, self._ahead, length = self._batches(), None, self._length()
            self._batches_now = -1 if length is None else length
        batch = self._batch = next(self._iterator, None) if self._ahead is None else self._ahead
        self._ahead = None
        if batch is None:
            self._iterator = self._order = None
            return None
        return self._batches_now

    def _peek(self) -> bool:
        # Only a loader that cannot say its length is read one ahead: reading may draw random numbers, and a checkpoint
        # of this step must not have drawn those of the next.
        self._ahead = next(self._iterator, None)
        return self._ahead is not None

    def _one(self, step: Callable[..., Tensor]) -> tuple[float, int]:
        batch, samples = self._part(self._batch)
        if isinstance(batch, dict):
            loss = step(**batch)
        else:
            loss = step(*batch) if isinstance(batch, (tuple, list)) else step(batch)
        return loss.item(), samples

    def _diverged(self, loss: float) -> None:
        where = f"; the last checkpoint is {self._folder.path(self._run.saved)}" if self._run.saved is not None else ""
        raise errors.NumericsError(
            f"fit: the loss is {loss} at step {self.step + 1}{where}. Try a smaller learning rate or clip_norm"
        )

    def _reported(self, records: _Records, loss: float, steps: int, ends_epoch: bool) -> None:
        """Called after a step that counts as ``steps``."""
        number = self._run.step
        if ends_epoch:
            self._order = None
        if self._schedule is not None and not isinstance(self._schedule, ReduceLROnPlateau):
            for _ in range(steps):
                self._schedule.step()
        self.history.losses.append((number, loss))
        records.write(number, [("train/loss", loss)])
        self.report.step(self, loss)
        for c in self.callbacks:
            c.on_step(self, loss)
            if ends_epoch:
                c.on_epoch(self)
        if ends_epoch:
            self._iterator = None

    def _evaluated(self, records: _Records) -> float | None:
        """Evaluates; returns the watched metric."""
        was_training = self.model.training
        self.model.eval()
        try:
            with no_grad():
                figures = {name: float(x) for name, x in self._evaluate().items()}
        finally:
            self.model.train(was_training)
        self.history.evaluations.append((self.step, figures))
        self.report.evaluated(self, figures)
        for c in self.callbacks:
            c.on_evaluate(self, figures)
        records.write(self.step, [(f"evaluation/{n}", x) for n, x in figures.items()])
        if self._watch is None:
            return None
        if self._watch not in figures:
            raise value_error(f"fit: the evaluation has no figure {self._watch!r}, only {sorted(figures)}")
        value = figures[self._watch]
        if isinstance(self._schedule, ReduceLROnPlateau):
            self._schedule.step(value)
        return value

    def _start(self, reserves: bool) -> None:
        self._has_others = self._run.has_others
        self.model.train()
        state = saved.variables(self)
        # Initial values are computed now, not within the first step, as after a resume.
        for _, t in state:
            t.eval()
        if reserves:
            self._folder.prepare(state)
        self._beside = self.optimizer._native.beside_store(state) if self._run.has_store else None
        if distributed.rank() > 0:
            self.report = Silent()
        self.report.begin(self)
        for c in self.callbacks:
            c.on_begin(self)

    def fit(self, loss: Callable[..., Tensor]) -> History:
        """Trains until the end; returns the history.

        ``loss`` gets the parts of a batch that is a tuple or a list, the values of a dict by name, or the batch
        itself.
        """
        step, records = self._descend(loss), _Records(self._journal, self._events)
        self._stop, self._iterator, self._beside, self._has_others = False, None, None, False
        with contextlib.ExitStack() as stack:
            tasks: dict[str, Callable[..., Any]] = {
                "agree": self._agree,
                "take_over": self._take_over,
                "give": lambda: self.optimizer._native.give(),
                "take": lambda: self.optimizer._native.take(),
                "seek": self._seek,
                "load_residuals": self._load_residuals,
                "check_folder": self._check_folder,
                "start": lambda reserves: (self._start(reserves), stack.enter_context(_Interrupts(self))),
                "meet": lambda: distributed.meet(self._give),
                "batch": self._next_batch,
                "step": functools.partial(self._one, step),
                "peek": self._peek,
                "diverged": self._diverged,
                "report": functools.partial(self._reported, records),
                "evaluate": lambda: self._evaluated(records),
                "save_residuals": self._save_residuals,
                "save": self._save,
                "save_last": self._save_last,
                "finish": lambda: _native.worker_finish(self._give),
                "close": records.flush,
            }
            try:
                self._drive(tasks)
            except errors.NumericsError as e:
                _native.worker_fail(str(e))
                if self._folder is not None:
                    self._folder.wait()
                raise
        self.report.end(self)
        for c in self.callbacks:
            c.on_end(self)
        return self.history

    def _drive(self, tasks: dict[str, Callable[..., Any]]) -> None:
        """Executes the tasks of the run until it ends."""
        run, answer = self._run, None
        run.begin(self._length())
        while True:
            task = run.next(answer)
            if task.__class__ is str:
                answer = tasks[task]()
                continue
            name, *told = task
            if name == "end":
                self.history.stop, self.history.best = told[0], run.best
                return
            answer = tasks[name](*told)


class _Records:
    """The journal and the events of a run, opened when this worker first has something to write there."""

    def __init__(self, journal: Any, events: Any) -> None:
        self._paths, self._native = (journal, events), None

    def write(self, step: int, figures: list[tuple[str, float]]) -> None:
        if self._paths == (None, None) or not _native.worker_writes_files():
            return
        if self._native is None:
            self._native = _native.Records(*self._paths, step - 1)
        self._native.write(step, figures)

    def flush(self) -> None:
        if self._native is not None:
            self._native.flush()


class _Interrupts:
    """Ctrl-C asks the trainer to stop; a second one is raised as usual."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer: Trainer = trainer
        self._before: Any = None

    def _handle(self, number: int, frame: Any) -> None:
        if self._trainer._stop:
            raise KeyboardInterrupt
        self._trainer.stop()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, *_exception: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

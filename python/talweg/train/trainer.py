"""``Trainer``: the loop around a training step. It reads batches, steps, evaluates, logs, saves, stops and
resumes; what the loss is, the caller says.

A resumed run continues bit for bit: everything that decides what the next step does (model, optimizer, random
state, place in the data, schedule, best score so far) is in the checkpoint.
"""

import json
import math
import os
import signal
import threading

from .. import _native, distributed, errors
from .._checked import checked, key_error, type_error, value_error
from .._native import Tensor
from .._state import no_grad
from .._transforms import jit as _jit
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..optim.native import NativeOptimizer
from ..optim.lr_scheduler import ReduceLROnPlateau
from ..utils.data import DataLoader
from .curves import curves
from .progress import Progress, Silent


class Callback:
    """Hears of a run; a subclass overrides what it wants. ``trainer.stop()`` ends the run after the step."""

    def on_begin(self, trainer):
        """The run begins."""

    def on_step(self, trainer, loss):
        """A step was done."""

    def on_evaluate(self, trainer, figures):
        """The model was evaluated; ``figures`` is a dict."""

    def on_epoch(self, trainer):
        """All batches were used once more."""

    def on_end(self, trainer):
        """The run has ended."""


class History:
    """Losses and figures of a run, and how it ended. In a notebook it shows its curves."""

    def __init__(self):
        self.losses = []
        self.evaluations = []
        self.stop = "not begun"
        self.best = None
        self.checkpoint = None

    def series(self):
        """The curves by name: lists of ``(step, value)``."""
        out = {"loss": list(self.losses)}
        for step, figures in self.evaluations:
            for name, value in figures.items():
                out.setdefault(name, []).append((step, value))
        return out

    def svg(self):
        """The curves as SVG text."""
        return curves(self.series())

    _repr_svg_ = svg

    def __repr__(self):
        steps = f"{self.losses[-1][0]} steps, loss {self.losses[-1][1]:.4g}" if self.losses else "no steps"
        best = f", best {self.best[0]:.4g} at step {self.best[1]}" if self.best else ""
        return f"History({self.stop}: {steps}{best})"


def _part(tensors, name):
    """What lies below a path, without it."""
    return {k[len(name) + 1 :]: v for k, v in tensors.items() if k.startswith(name + ".")}


@checked
def load_checkpoint(path, part="model"):
    """The tensors of a part of a checkpoint, by name: ``model.load_state_dict(load_checkpoint(path))``.

    ``path`` is a file or a URL such as ``History.checkpoint``; files that servers of the parameter store have written
    beside it are read as well, and everything is checked. Parts are ``"model"``, what a module calls some of it
    (``"model.encoder"``), or ``"optimizer"``.
    """
    tensors = _native.load_checkpoint(os.fspath(path))[3]
    found = _part(tensors, part)
    if not found:
        parts = sorted({name.split(".")[0] for name in tensors})
        raise key_error(f"load_checkpoint: {path} has no {part!r}; it has {parts}")
    return found


def _numbers(optimizer, group):
    """The settings of a group that a schedule or a program may have changed, but for its rate."""

    def is_number(value):
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def is_one(value):
        return all(map(is_number, value)) if isinstance(value, (tuple, list)) else is_number(value)

    return {k: group[k] for k in optimizer.defaults if k != "lr" and is_one(group.get(k))}


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
    was, and only the lowest active rank writes files. The state of ``callbacks`` is lost when a worker is replaced.
    """

    @checked
    def __init__(
        self,
        model,
        optimizer,
        loader,
        *,
        epochs=None,
        steps=None,
        evaluate=None,
        evaluate_every=0,
        watch=None,
        maximize=False,
        patience=None,
        schedule=None,
        clip_norm=None,
        clip_value=None,
        checkpoints=None,
        save_every=0,
        keep_last=3,
        keep_best=0,
        journal=None,
        events=None,
        jit=False,
        callbacks=(),
        progress=True,
    ):
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
        self._evaluate, self._evaluate_every = evaluate, evaluate_every
        self._watch, self._maximize, self._patience = watch, maximize, patience
        self._schedule, self._clip = schedule, (clip_value, clip_norm)
        self._folder = None
        if checkpoints is not None:
            self._folder = _native.Checkpoints(os.fspath(checkpoints), keep_last, keep_best, maximize)
        self._save_every, self._keep_best = save_every, keep_best
        self._journal, self._events, self._is_jit = journal, events, jit
        self.callbacks = list(callbacks)
        self.report = (Progress() if progress else Silent()) if isinstance(progress, bool) else progress
        self.history = History()
        self.step = 0
        self.epoch = 0
        self._batch = 0  # batches of this epoch that were used
        self._order = None  # the generator's state as this epoch began
        self._worse = 0
        self._saved = None
        self._stop = False
        self._per_epoch = None
        self._workers = 1
        self._has_store = self._is_late = False
        self._has_moved = False  # to another place of the data than the next
        self._owed = None  # where this worker keeps what packing leaves out of its gradients

    @property
    def total(self):
        """Steps in all, if they are known."""
        if self._steps is not None:
            return self._steps
        # Without a length it is known once an epoch has been counted.
        length = self._length() or self._per_epoch
        return None if length is None else length * self._epochs

    @property
    def at_epoch_end(self):
        """True if the last step ended an epoch: ``epoch`` of them are done, and the next has not begun."""
        return self.step > 0 and self._batch == 0

    def stop(self):
        """Ends the run after the present step."""
        self._stop = True

    # Checkpoints.

    def _state(self):
        """Everything that is trained, with its path in checkpoints: the variables themselves, of which those in a
        parameter store can be told."""
        parts = {"model": self.model._all_state(), "optimizer": self.optimizer._native.state()}
        return [(f"{part}.{name}", v) for part, state in parts.items() for name, v in state]

    def _notes(self):
        notes = {"epoch": self.epoch, "batch": self._batch, "worse": self._worse, "order": self._order}
        notes["best"], notes["seed"] = self.history.best, getattr(self.loader, "seed", None)
        notes["rates"] = [g["lr"] for g in self.optimizer.param_groups]
        notes["settings"] = [_numbers(self.optimizer, g) for g in self.optimizer.param_groups]
        notes["schedule"] = self._schedule.state_dict() if self._schedule is not None else None
        notes["loader"] = self._loader_state()
        return {f"python.{k}": json.dumps(v) for k, v in notes.items()}

    def _loader_state(self):
        """Where the loader is; ``None`` if it cannot say so in JSON, and has to read again what was read."""
        if not isinstance(self.loader, DataLoader) or not self.loader.in_order:
            return None
        state = self.loader.state_dict()
        try:
            json.dumps(state)
        except TypeError:
            return None
        return state

    def _save(self, score, is_last):
        # Another worker may have ended before this one came to write files.
        if distributed.rank() > 0 and any(s >= self.step for s in self._folder.steps()):
            return
        native = self.optimizer._native
        path = self._folder.save(self.step, self._state(), self._notes(), score, native, is_last)
        if path is not None:
            self._saved, self.history.checkpoint = self.step, path
        self._tell_given_up()

    def _save_last(self):
        """Saves what is not saved yet and waits until it is on disk: a run that could not write its last checkpoint
        has failed."""
        if self._folder is not None:
            if self._saved != self.step and _native.worker_writes_files():
                self._save(None, True)
            self._folder.wait()
            self._tell_given_up()

    def _tell_given_up(self):
        for reason in self._folder.given_up():
            self.report.warn(f"a checkpoint was given up: {reason}")

    def resume(self):
        """Continues from the newest whole checkpoint; its step, or ``None`` if there is none yet."""
        if self._folder is None:
            raise value_error("resume: there is no folder of checkpoints")
        found = self._folder.latest()
        if found is None:
            return None
        held, path, refused = found
        for reason in refused:
            self.report.warn(f"a checkpoint was passed over: {reason}")
        if "python.epoch" not in held[2]:
            raise value_error(f"resume: {path} was written by another trainer")
        self._restore(*held)
        self._saved, self.history.checkpoint = self.step, path
        return self.step

    def _restore(self, step, generator, notes, tensors):
        """Takes over what a checkpoint holds, or nothing of it."""

        before = self.model.state_dict()
        self.model.load_state_dict(_part(tensors, "model"))
        try:
            self.optimizer.load_state_dict(_part(tensors, "optimizer"))
        except Exception:
            self.model.load_state_dict(before)
            raise
        self._recall(step, generator, notes)

    def _recall(self, step, generator, notes):
        """Takes over what a checkpoint holds beside tensors."""
        told = {k.removeprefix("python."): json.loads(v) for k, v in notes.items() if k.startswith("python.")}
        for group, rate in zip(self.optimizer.param_groups, told.get("rates", ())):
            group["lr"] = rate
        for group, settings in zip(self.optimizer.param_groups, told.get("settings", ())):
            for key, value in settings.items():
                value = tuple(value) if isinstance(value, list) else value
                if group.get(key) != value:
                    group[key] = value
        if self._schedule is not None and told["schedule"] is not None:
            self._schedule.load_state_dict(told["schedule"])
        self.step, self.epoch, self._batch = step, told["epoch"], told["batch"]
        self._order = tuple(told["order"]) if told["order"] else None
        if told["seed"] is not None and hasattr(self.loader, "seed"):
            self.loader.seed = told["seed"]
        if told.get("loader") is not None and isinstance(self.loader, DataLoader):
            self.loader.load_state_dict(told["loader"])
        self._worse = told["worse"]
        self.history.best = tuple(told["best"]) if told["best"] else None
        _native.set_random_state(generator)

    # Among other workers.

    def _join(self):
        """Takes this worker's place among the others, or that of a lost one; the first one alone reports."""
        self._workers, self._has_store = distributed.world_size(), _native.worker_has_store()
        if self._workers > 1:
            _native.worker_agree(self._settings(), self.optimizer._native)
        self._is_late = _native.worker_is_late()
        if self._is_late:
            self._take_over(*_native.decode_checkpoint(distributed.meet(lambda: b"")))
        if self._has_store:
            origin, first = _native.worker_begin(self.step)
            if self.step > 0 or self._is_late:
                # What the store began with before, perhaps on its servers' disks, goes first.
                if origin == self.step and not self._is_late:
                    self.optimizer._native.give()
                self.optimizer._native.take()
            if first != self.step:
                self._seek(first)
            self._beside = self.optimizer._native.beside_store(self._state())
        if self._folder is not None:
            self._owed = self._folder.owed(self.step)
        if distributed.rank() > 0:
            self.report = Silent()

    def _settings(self):
        """What all workers must agree on before the first step."""
        source = getattr(self.loader, "dataset", None)
        samples = len(source) if hasattr(source, "__len__") else None
        settings = [("workers", self._workers), ("samples", samples), ("batches of an epoch", self._length())]
        settings += [("batch size", getattr(self.loader, "batch_size", None)), ("clipping", self._clip)]
        if not self._has_store:
            # The store says itself where its workers begin, and may be taken up again with another optimizer.
            settings += [("step", self.step), ("seed of the shuffle", getattr(self.loader, "seed", None))]
            settings += [("optimizer", self.optimizer)]
        return [(name, str(value)) for name, value in settings]

    def _take_over(self, step, generator, notes, tensors):
        """Goes on from what another worker, or this one's predecessor, gave before a step."""
        if self._has_store:
            mine = dict(self._state())
            for name, value in tensors.items():
                mine[name].assign(value)
            self._recall(step, generator, notes)
        else:
            self._restore(step, generator, notes, tensors)
        self._saved = None

    def _give(self):
        """Everything that decides the next step, but for what the parameter store holds."""
        state = self._beside if self._has_store else self._state()
        return _native.encode_checkpoint(self.step, state, self._notes())

    def _meet(self):
        """Before a step: hands over what a worker that replaces a lost one has to know."""
        if self._workers > 1 or self._has_store:
            distributed.meet(self._give)

    def _seek(self, step):
        """Goes to the place in the data that follows so many steps."""
        length = self._length()
        if length is None:
            raise value_error("fit: a worker can take another's place only if the loader has a length")
        self.step = step
        self.epoch, self._batch = divmod(step, length)

    def _follow(self):
        """After a step: goes on with the others if they did not wait for this worker, as backup workers do not."""
        to, total = _native.worker_next_step(self.step), self.total
        to = to if total is None else min(to, total)
        if to > self.step:
            self._seek(to)
            self._has_moved = True

    def _tell(self, loss):
        """Tells the launcher how far this worker is."""
        if self._workers > 1:
            _native.worker_tell(self.step, self.total or self.step, loss, self._size)

    def _part(self, batch):
        """This worker's part of a batch."""
        if self._workers == 1:
            return batch
        if isinstance(batch, dict):
            batch = {k: distributed.shard(v) for k, v in batch.items()}
            self._size = len(next(iter(batch.values())))
        elif isinstance(batch, (tuple, list)):
            batch = [distributed.shard(v) for v in batch]
            self._size = len(batch[0])
        else:
            batch = distributed.shard(batch)
            self._size = len(batch)
        return batch

    # The run.

    def _descend(self, loss):
        def step(*args, **kwargs):
            value = loss(*args, **kwargs)
            if not isinstance(value, Tensor):
                raise type_error(f"fit: the loss is {type(value).__name__}, not a tensor")
            self.optimizer.zero_grad()
            value.backward()
            clip_value, clip_norm = self._clip
            if clip_value is not None:
                clip_grad_value_(self._trained(), clip_value)
            if clip_norm is not None:
                clip_grad_norm_(self._trained(), clip_norm)
            self.optimizer.step()
            return value

        return _jit(step) if self._is_jit else step

    def _trained(self):
        """What the optimizer trains."""
        return [p for g in self.optimizer.param_groups for p in g["params"]]

    def _batches(self):
        """The batches from here on to the end of this epoch."""
        if hasattr(self.loader, "batches_from"):
            yield from self.loader.batches_from(self._batch, self.epoch)
            return
        if self._batch == 0 or self._order is None:
            # Who takes the place of a lost worker in the middle of an epoch finds the order of its beginning.
            _native.worker_draw_for(self.step - self._batch)
            self._order = _native.random_state()
            if hasattr(self.loader, "__next__") and self.epoch > 0:
                raise value_error("fit: the loader is an iterator that can be used once only; give a list or a DataLoader")
        if self._batch == 0:
            yield from self.loader
            return
        # The order of a shuffled epoch follows from the generator as it was when the epoch began.
        now = _native.random_state()
        _native.set_random_state(self._order)
        batches = iter(self.loader)
        for _ in range(self._batch):
            next(batches, None)
        _native.set_random_state(now)
        yield from batches

    def _length(self):
        """Batches of an epoch, if that is known before its end."""
        try:
            return len(self.loader)
        except TypeError:
            return None

    def _one(self, step, batch):
        self._meet()
        _native.worker_draw_for(self.step)
        batch = self._part(batch)
        if isinstance(batch, dict):
            loss = step(**batch)
        else:
            loss = step(*batch) if isinstance(batch, (tuple, list)) else step(batch)
        value = loss.item()
        if not math.isfinite(value):
            where = f"; the last checkpoint is {self._folder.path(self._saved)}" if self._saved is not None else ""
            raise errors.NumericsError(
                f"fit: the loss is {value} at step {self.step + 1}{where}. Try a smaller learning rate or clip_norm"
            )
        before = self.step
        self.step += 1
        self._batch += 1
        if self._workers > 1:
            self._follow()
        if self._schedule is not None and not isinstance(self._schedule, ReduceLROnPlateau):
            for _ in range(before, self.step):
                self._schedule.step()
        self.history.losses.append((self.step, value))
        return value

    def _is_due(self, every, is_epoch_end):
        return is_epoch_end if every == 0 else self.step % every == 0

    def _evaluated(self, records):
        """Evaluates; the watched figure."""
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
        best = self.history.best
        is_better = best is None or (value > best[0] if self._maximize else value < best[0])
        if is_better and not math.isnan(value):
            self.history.best, self._worse = (value, self.step), 0
        else:
            self._worse += 1
        if isinstance(self._schedule, ReduceLROnPlateau):
            self._schedule.step(value)
        return value

    def _after(self, records, is_epoch_end):
        """Evaluates and saves where that is due."""
        is_last = self._is_over()
        score = None
        if self._evaluate is not None and (is_last or self._is_due(self._evaluate_every, is_epoch_end)):
            score = self._evaluated(records)
        is_due = self._is_due(self._save_every, is_epoch_end)
        if self._owed is not None and is_due:
            self._owed.keep(self.step)
        if self._folder is not None and _native.worker_writes_files():
            is_best = self._keep_best and self.history.best is not None and self.history.best[1] == self.step
            if is_last or is_best or is_due:
                self._save(score, is_last)

    def _is_over(self):
        if self._steps is not None:
            return self.step >= self._steps
        return self.epoch >= self._epochs

    def _run(self, step, records):
        if not self._is_over() and not _native.worker_goes_on(self.step + 1):
            return "interrupted"
        while not self._is_over():
            length, batches = self._length(), self._batches()
            batch = next(batches, None)
            if batch is None and self._batch == 0:
                raise value_error("fit: the loader has no batches")
            while batch is not None:
                value = self._one(step, batch)
                if self._has_moved:
                    self._has_moved = False
                    reason = self._done(value, records, self._batch == 0)
                    if reason is not None:
                        return reason
                    break
                # Only a loader that cannot say its length is read one ahead: reading may draw random numbers,
                # and a checkpoint of this step must not have drawn those of the next.
                batch = next(batches, None) if length is None else None
                is_epoch_end = batch is None if length is None else self._batch >= length
                if is_epoch_end:
                    self._begin_epoch()
                reason = self._done(value, records, is_epoch_end)
                if reason is not None:
                    return reason
                if length is not None and not is_epoch_end:
                    batch = next(batches, None)
            else:
                if self._batch > 0:
                    # The loader has fewer batches than it said.
                    self._begin_epoch()
        return "done"

    def _begin_epoch(self):
        self._per_epoch = self._batch
        self.epoch, self._batch, self._order = self.epoch + 1, 0, None

    def _done(self, value, records, is_epoch_end):
        """What follows a step; why the run ends here, if it does."""
        records.write(self.step, [("train/loss", value)])
        self.report.step(self, value)
        self._tell(value)
        for c in self.callbacks:
            c.on_step(self, value)
            if is_epoch_end:
                c.on_epoch(self)
        self._after(records, is_epoch_end)
        if self._patience is not None and self._worse >= self._patience:
            return "early"
        if self._is_over():
            return "done"
        # Among other workers all of them agree on a last step.
        if self._stop and not _native.worker_ask_to_stop():
            return "interrupted"
        return None if _native.worker_goes_on(self.step + 1) else "interrupted"

    def fit(self, loss):
        """Trains until the end; returns the history.

        ``loss`` gets the parts of a batch that is a tuple or a list, the values of a dict by name, or the batch
        itself.
        """
        _native.worker_run_begins(self.step)
        self._join()
        # Of a worker that does a step again there may be a checkpoint after it, and another that goes ahead may have
        # written one already.
        if self._folder is not None and not self._is_late and _native.worker_writes_files():
            later = self._folder.later(self.step)
            if later is not None:
                raise value_error(f"fit: the run is at step {self.step}, but there is {later} already: resume, or choose another folder")
        self._stop = False
        self.model.train()
        # Initial values are computed now, not within the first step, as after a resume.
        for _, t in self._state():
            t.eval()
        if self._folder is not None and not self._has_store and _native.worker_writes_files():
            self._folder.prepare(self._state())
        records = _Records(self._journal, self._events)
        self.report.begin(self)
        for c in self.callbacks:
            c.on_begin(self)
        with _Interrupts(self):
            try:
                self.history.stop = self._run(self._descend(loss), records)
            except errors.NumericsError as e:
                _native.worker_fail(str(e))
                if self._folder is not None:
                    self._folder.wait()
                raise
            if _native.worker_settle(self.history.stop == "done"):
                self.optimizer._native.take()
                self._saved = None
            if self._owed is not None:
                self._owed.keep(self.step)
            self._save_last()
            _native.worker_finish(self._give)
            self._save_last()  # if its writer was lost
        records.flush()
        _native.worker_done()
        self.report.end(self)
        for c in self.callbacks:
            c.on_end(self)
        return self.history


class _Records:
    """The journal and the events of a run, opened when this worker first has something to write there."""

    def __init__(self, journal, events):
        self._paths, self._native = (journal, events), None

    def write(self, step, figures):
        if self._paths == (None, None) or not _native.worker_writes_files():
            return
        if self._native is None:
            self._native = _native.Records(*self._paths, step - 1)
        self._native.write(step, figures)

    def flush(self):
        if self._native is not None:
            self._native.flush()


class _Interrupts:
    """Ctrl-C asks the trainer to stop; a second one is raised as usual."""

    def __init__(self, trainer):
        self._trainer, self._before = trainer, None

    def _handle(self, number, frame):
        if self._trainer._stop:
            raise KeyboardInterrupt
        self._trainer.stop()

    def __enter__(self):
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, *_exception):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

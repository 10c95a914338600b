"""``tf.train`` beside optimizers: moving averages, sessions that save themselves, coordinators."""

# mypy: ignore-errors
from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, Iterator

from . import graph as g
from .constants import zeros
from .control_flow import group
from .errors import OutOfRangeError, invalid, unimplemented
from .graph import GraphKeys, Operation, convert_to_tensor, get_default_graph
from .maths import cast, minimum
from .optimizers import get_global_step
from .saver import Saver, latest_checkpoint
from .session import Session
from .variables import Variable, assign_sub, global_variables, moving_average_variables, trainable_variables, variables_initializer


class ExponentialMovingAverage:
    """Averages of variables and tensors: ``average -= (1 - decay) (average - value)``."""

    def __init__(self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"):
        if zero_debias:
            raise unimplemented("ExponentialMovingAverage(zero_debias=True)")
        self._decay, self._updates, self.name = decay, num_updates, name
        self._averages: dict[Any, Variable] = {}

    def apply(self, var_list: Any = None) -> Operation:
        """The operation that updates the averages."""
        listed = list(trainable_variables() if var_list is None else var_list)
        graph = get_default_graph()
        decay = convert_to_tensor(self._decay, "float32")
        if self._updates is not None:
            n = cast(convert_to_tensor(self._updates), "float32")
            decay = minimum(decay, (1.0 + n) / (10.0 + n))
        ops = []
        for x in listed:
            t = convert_to_tensor(x)
            if x not in self._averages:
                with graph.outside(), graph.name_scope(None):
                    first = x.initialized_value() if isinstance(x, Variable) else zeros(t.shape, t.dtype)
                    self._averages[x] = Variable(first, trainable=False, name=f"{t.op.name}/{self.name}")
                if isinstance(x, Variable):
                    g.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, x)
            average = self._averages[x]
            ops.append(assign_sub(average, cast(1.0 - decay, t.dtype) * (average - t)))
        return group(*ops)

    def average(self, var: Any) -> Variable | None:
        """The variable that holds an average."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name under which an average is saved."""
        return f"{var.op.name}/{self.name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Variable]:
        """Names of averages, with the variables to which they are restored."""
        averaged = list(moving_avg_variables or [*trainable_variables(), *moving_average_variables()])
        named = {self.average_name(v): v for v in averaged}
        named.update({v.op.name: v for v in global_variables() if v not in averaged})
        return named


class Coordinator:
    """Asks threads to stop, waits for them, and raises what ended them."""

    def __init__(self, clean_stop_exception_types: Any = None):
        self._types = tuple(clean_stop_exception_types or (OutOfRangeError,))
        self._event, self._error, self._threads = threading.Event(), None, []

    def request_stop(self, ex: Any = None) -> None:
        """Asks all to stop; ``join`` raises ``ex`` unless it ends an input."""
        if isinstance(ex, tuple):
            ex = ex[1]
        if ex is not None and not isinstance(ex, self._types) and self._error is None:
            self._error = ex
        self._event.set()

    def clear_stop(self) -> None:
        """Forgets the request."""
        self._event.clear()
        self._error = None

    def should_stop(self) -> bool:
        """True after ``request_stop``."""
        return self._event.is_set()

    def wait_for_stop(self, timeout: Any = None) -> bool:
        """Waits for ``request_stop``."""
        return self._event.wait(timeout)

    def register_thread(self, thread: Any) -> None:
        """A thread that ``join`` waits for."""
        self._threads.append(thread)

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Requests a stop when what is inside raises."""
        try:
            yield
        except Exception as e:  # noqa: BLE001
            self.request_stop(e)

    def raise_requested_exception(self) -> None:
        """Raises what a thread reported."""
        if self._error is not None:
            raise self._error

    def join(self, threads: Any = None, stop_grace_period_secs: float = 120, ignore_live_threads: bool = False) -> None:
        """Waits for the threads to end after a request."""
        waited = list(threads or []) + self._threads
        while any(t.is_alive() for t in waited) and not self.wait_for_stop(0.05):
            pass
        end = time.monotonic() + stop_grace_period_secs
        for t in waited:
            t.join(max(0.0, end - time.monotonic()))
        self.raise_requested_exception()
        if any(t.is_alive() for t in waited) and not ignore_live_threads:
            raise RuntimeError("Coordinator: threads did not stop in time")


def start_queue_runners(sess: Any = None, coord: Any = None, daemon: bool = True, start: bool = True, collection: Any = None) -> list[Any]:
    """No threads: there are no queues in the graph."""
    return []


class SessionRunArgs:
    """What a hook wants to fetch in a run."""

    def __init__(self, fetches: Any, feed_dict: Any = None, options: Any = None):
        self.fetches, self.feed_dict, self.options = fetches, feed_dict, options


class SessionRunValues:
    """What a hook fetched."""

    def __init__(self, results: Any):
        self.results, self.options, self.run_metadata = results, None, None


class SessionRunContext:
    """A run, for hooks."""

    def __init__(self, original_args: Any, session: Any):
        self.original_args, self.session, self.stop_requested = original_args, session, False

    def request_stop(self) -> None:
        """Ends the loop after this run."""
        self.stop_requested = True


class SessionRunHook:
    """Called around each run of a ``MonitoredSession``."""

    def begin(self) -> None:
        """Before the session is made."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """After the session was made."""

    def before_run(self, run_context: Any) -> Any:
        """Before a run; may return ``SessionRunArgs``."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """After a run."""

    def end(self, session: Any) -> None:
        """At the end."""


class StopAtStepHook(SessionRunHook):
    """Ends training at a step."""

    def __init__(self, num_steps: Any = None, last_step: Any = None):
        if (num_steps is None) == (last_step is None):
            raise invalid("StopAtStepHook: give num_steps or last_step")
        self._many, self._last = num_steps, last_step

    def begin(self) -> None:
        """Finds the global step."""
        self._step = get_global_step()
        if self._step is None:
            raise invalid("StopAtStepHook: there is no global step: use tf.train.get_or_create_global_step()")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Computes the last step."""
        if self._last is None:
            self._last = int(session.run(self._step)) + self._many

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends at the last step."""
        if int(run_context.session.run(self._step)) >= self._last:
            run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Prints tensors every so many runs."""

    def __init__(self, tensors: Any, every_n_iter: Any = None, every_n_secs: Any = None, at_end: bool = False, formatter: Any = None):
        self._tensors = tensors if isinstance(tensors, dict) else {t if isinstance(t, str) else t.name: t for t in tensors}
        self._every, self._formatter, self._count = every_n_iter or 100, formatter, 0

    def before_run(self, run_context: Any) -> Any:
        """Fetches the tensors when it is time."""
        self._count += 1
        return SessionRunArgs(self._tensors) if (self._count - 1) % self._every == 0 else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Prints what was fetched."""
        if run_values.results is not None:
            from .platform import logging

            shown = ", ".join(f"{k} = {v}" for k, v in run_values.results.items())
            logging.info(self._formatter(run_values.results) if self._formatter else shown)


class NanLossDuringTrainingError(RuntimeError):
    """The loss is NaN."""


class NanTensorHook(SessionRunHook):
    """Ends training, or raises, when a loss is NaN."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True):
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: Any) -> Any:
        """Fetches the loss."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Looks at the loss."""
        if run_values.results != run_values.results:
            if self._fail:
                raise NanLossDuringTrainingError("NaN loss during training")
            run_context.request_stop()


class CheckpointSaverHook(SessionRunHook):
    """Saves every so many steps or seconds, and at the end."""

    def __init__(self, checkpoint_dir: str, save_secs: Any = None, save_steps: Any = None, saver: Any = None, checkpoint_basename: str = "model.ckpt", scaffold: Any = None, listeners: Any = None):
        self._dir, self._secs, self._steps, self._saver = checkpoint_dir, save_secs, save_steps, saver
        self._path, self._last, self._when = os.path.join(checkpoint_dir, checkpoint_basename), None, time.monotonic()

    def begin(self) -> None:
        """Makes the folder."""
        os.makedirs(self._dir, exist_ok=True)
        self._saver = self._saver or Saver()
        self._step = get_global_step()

    def _save(self, session: Any) -> None:
        step = int(session.run(self._step)) if self._step is not None else None
        if step != self._last or step is None:
            self._saver.save(session, self._path, step)
            self._last, self._when = step, time.monotonic()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves when it is time."""
        is_time = self._secs is not None and time.monotonic() - self._when >= self._secs
        if self._steps is not None and self._step is not None:
            step = int(run_context.session.run(self._step))
            is_time = is_time or self._last is None or step - self._last >= self._steps
        if is_time:
            self._save(run_context.session)

    def end(self, session: Any) -> None:
        """Saves the last state."""
        self._save(session)


class Scaffold:
    """The parts of a ``MonitoredTrainingSession``."""

    def __init__(self, init_op: Any = None, init_feed_dict: Any = None, init_fn: Any = None, ready_op: Any = None, ready_for_local_init_op: Any = None, local_init_op: Any = None, summary_op: Any = None, saver: Any = None, copy_from_scaffold: Any = None):
        self.init_op, self.init_feed_dict, self.init_fn = init_op, init_feed_dict, init_fn
        self.local_init_op, self.summary_op, self.saver = local_init_op, summary_op, saver


class MonitoredSession:
    """A session with hooks that initializes or restores its variables itself."""

    def __init__(self, session_creator: Any = None, hooks: Any = None, checkpoint_dir: Any = None, scaffold: Any = None, config: Any = None):
        self._hooks, self._stop = list(hooks or []), False
        scaffold = scaffold or Scaffold()
        for h in self._hooks:
            h.begin()
        graph = get_default_graph()
        self._session = Session(graph=graph, config=config)
        self._session.run(scaffold.init_op or variables_initializer(global_variables()), scaffold.init_feed_dict)
        self._session.run(scaffold.local_init_op or variables_initializer(graph.get_collection(GraphKeys.LOCAL_VARIABLES)))
        newest = latest_checkpoint(checkpoint_dir) if checkpoint_dir else None
        if newest is not None:
            (scaffold.saver or Saver()).restore(self._session, newest)
        elif scaffold.init_fn is not None:
            scaffold.init_fn(scaffold, self._session)
        for h in self._hooks:
            h.after_create_session(self._session, None)
        self.graph = graph

    def should_stop(self) -> bool:
        """True after a hook or an input asked for the end."""
        return self._stop

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """A run, with what hooks fetch."""
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._session)
        wanted = [h.before_run(context) for h in self._hooks]
        asked = [(i, w) for i, w in enumerate(wanted) if w is not None and w.fetches is not None]
        feeds = dict(feed_dict or {})
        for _, w in asked:
            feeds.update(w.feed_dict or {})
        made = self._session.run([fetches, [w.fetches for _, w in asked]], feeds)
        results = dict(zip([i for i, _ in asked], made[1]))
        for i, h in enumerate(self._hooks):
            h.after_run(context, SessionRunValues(results.get(i)))
        self._stop = self._stop or context.stop_requested
        return made[0]

    def close(self) -> None:
        """Ends the hooks and the session."""
        for h in self._hooks:
            h.end(self._session)
        self._session.close()

    def __enter__(self) -> MonitoredSession:
        self._scope = self._session.as_default()
        self._scope.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self._scope.__exit__(None, None, None)
        if kind is None or issubclass(kind, OutOfRangeError):
            self.close()
            return True
        self._session.close()
        return False


SingularMonitoredSession = MonitoredSession


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Any = None,
    hooks: Any = None,
    chief_only_hooks: Any = None,
    save_checkpoint_secs: Any = 600,
    save_summaries_steps: Any = None,
    save_summaries_secs: Any = None,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: Any = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = None,
    summary_dir: Any = None,
) -> MonitoredSession:
    """A ``MonitoredSession`` that restores from and saves to a folder. It is local: ``master`` must be empty."""
    if master:
        raise unimplemented("MonitoredTrainingSession(master): use `talweg launch` for several processes")
    every = list(hooks or []) + list(chief_only_hooks or [])
    if checkpoint_dir:
        secs = None if save_checkpoint_steps is not None else save_checkpoint_secs
        every.append(CheckpointSaverHook(checkpoint_dir, secs, save_checkpoint_steps, scaffold.saver if scaffold else None))
    return MonitoredSession(None, every, checkpoint_dir, scaffold, config)


def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Writes the names of the operations."""
    os.makedirs(logdir, exist_ok=True)
    path = os.path.join(logdir, name)
    with open(path, "w") as f:
        for op in graph_or_graph_def.get_operations():
            inputs = "".join(f' input: "{t.name}"' for t in op.inputs)
            f.write(f'node {{ name: "{op.name}" op: "{op.type}"{inputs} }}\n')
    return path

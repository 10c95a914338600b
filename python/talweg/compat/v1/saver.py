"""``tf.train.Saver``: variables in safetensors files, with TensorFlow's ``checkpoint`` file beside them."""

# mypy: ignore-errors
from __future__ import annotations

import os
import time
from typing import Any

from ..._native import load_tensors, save_tensors, tensor
from .errors import NotFoundError, invalid, located
from .variables import Variable, global_variables

SUFFIX = ".safetensors"


def _foreign(path: str) -> bool:
    return os.path.exists(path + ".index") or os.path.exists(path + ".data-00000-of-00001")


class Saver:
    """Writes and reads the variables of a session.

    ``save(sess, "model.ckpt", global_step=10)`` writes ``model.ckpt-10.safetensors`` and returns ``model.ckpt-10``. Files
    of TensorFlow itself cannot be read.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: Any = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: Any = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: Any = None,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: Any = None,
    ):
        self._given, self._reshape, self._keep, self._pad = var_list, reshape, max_to_keep, pad_step_number
        self._hours = keep_checkpoint_every_n_hours
        self._next_kept = time.time() + keep_checkpoint_every_n_hours * 3600
        self._last: list[tuple[str, float]] = []
        if not allow_empty and not defer_build and not self._variables():
            raise invalid("Saver: there are no variables to save")

    def _variables(self) -> dict[str, Variable]:
        given = global_variables() if self._given is None else self._given
        if isinstance(given, dict):
            return {k: v for k, v in given.items()}
        return {v.op.name: v for v in given}

    last_checkpoints = property(lambda self: [p for p, _ in self._last])

    def set_last_checkpoints(self, last_checkpoints: Any) -> None:
        """The files that count for ``max_to_keep``."""
        self._last = [(p, time.time()) for p in last_checkpoints]

    def recover_last_checkpoints(self, checkpoint_paths: Any) -> None:
        """The files that count for ``max_to_keep``, those that exist."""
        self._last = [(p, os.path.getmtime(p + SUFFIX)) for p in checkpoint_paths if checkpoint_exists(p)]

    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: Any = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str:
        """Writes the variables of a session; returns the path for ``restore``."""
        path = os.fspath(save_path)
        if global_step is not None:
            step = global_step if isinstance(global_step, int) else int(sess.run(global_step))
            path = f"{path}-{step:08d}" if self._pad else f"{path}-{step}"
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise NotFoundError(located(f"save: the folder {folder} does not exist"))
        variables = self._variables()
        values = sess.run(list(variables.values()))
        save_tensors(path + SUFFIX, [(k, tensor(v)) for k, v in zip(variables, values)])
        self._rotate(path)
        if write_state:
            update_checkpoint_state(folder, path, self.last_checkpoints, latest_filename)
        return path

    def _rotate(self, path: str) -> None:
        self._last = [(p, t) for p, t in self._last if p != path] + [(path, time.time())]
        while self._keep and len(self._last) > self._keep:
            old, when = self._last.pop(0)
            if when > self._next_kept:
                self._next_kept += self._hours * 3600
            elif os.path.exists(old + SUFFIX):
                os.remove(old + SUFFIX)

    def restore(self, sess: Any, save_path: Any) -> None:
        """Gives the variables of a session the values of a file."""
        if save_path is None:
            raise invalid("restore: the path is None: no checkpoint was found")
        path = os.fspath(save_path)
        if not os.path.exists(path + SUFFIX):
            if _foreign(path):
                e = "is a checkpoint of TensorFlow, which cannot be read: export it there with numpy.savez and load that"
                raise invalid(f"restore: {path} {e}")
            raise NotFoundError(located(f"restore: there is no checkpoint {path}{SUFFIX}"))
        saved = dict(load_tensors(path + SUFFIX))
        variables = self._variables()
        missing = [k for k in variables if k not in saved]
        if missing:
            raise NotFoundError(located(f"restore: the checkpoint {path} has no variable {missing[0]!r}; it has {sorted(saved)[:8]}"))
        for k, v in variables.items():
            value = saved[k]
            if self._reshape and v.shape.is_fully_defined():
                value = value.reshape(v.shape.as_list())
            if not v.shape.is_compatible_with(tuple(value.shape)):
                raise invalid(f"restore: {k} has shape {v.shape} and {tuple(value.shape)} in the file")
            sess._assign(v, value)

    def export_meta_graph(self, *_: Any, **__: Any) -> Any:
        """Not there: a program makes its graph."""
        from .errors import unimplemented

        raise unimplemented("export_meta_graph: a program makes its graph; the Saver keeps variables")


def import_meta_graph(*_: Any, **__: Any) -> Any:
    """Not there: a program makes its graph."""
    from .errors import unimplemented

    raise unimplemented("import_meta_graph: build the graph in Python, then Saver().restore(sess, path)")


class CheckpointState:
    """What the file ``checkpoint`` of a folder says."""

    def __init__(self, model_checkpoint_path: str, all_model_checkpoint_paths: list[str]):
        self.model_checkpoint_path = model_checkpoint_path
        self.all_model_checkpoint_paths = all_model_checkpoint_paths


def update_checkpoint_state(save_dir: Any, model_checkpoint_path: str, all_model_checkpoint_paths: Any = None, latest_filename: Any = None) -> None:
    """Writes the file ``checkpoint``."""
    paths = list(all_model_checkpoint_paths or [])
    if model_checkpoint_path not in paths:
        paths.append(model_checkpoint_path)
    lines = [f'model_checkpoint_path: "{_relative(save_dir, model_checkpoint_path)}"']
    lines += [f'all_model_checkpoint_paths: "{_relative(save_dir, p)}"' for p in paths]
    target = os.path.join(save_dir, latest_filename or "checkpoint")
    with open(target + ".tmp", "w") as f:
        f.write("\n".join(lines) + "\n")
    os.replace(target + ".tmp", target)


def _relative(folder: Any, path: str) -> str:
    return os.path.relpath(path, folder) if os.path.dirname(path) else path


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: Any = None) -> CheckpointState | None:
    """What the file ``checkpoint`` of a folder says, or ``None``."""
    path = os.path.join(checkpoint_dir, latest_filename or "checkpoint")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        pairs = [line.split(": ", 1) for line in f.read().splitlines() if ": " in line]
    named = [(k, os.path.join(checkpoint_dir, v.strip('"'))) for k, v in pairs]
    latest = next((v for k, v in named if k == "model_checkpoint_path"), "")
    return CheckpointState(latest, [v for k, v in named if k == "all_model_checkpoint_paths"])


def latest_checkpoint(checkpoint_dir: Any, latest_filename: Any = None) -> str | None:
    """The path of the newest checkpoint of a folder, or ``None``."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not state.model_checkpoint_path:
        return None
    path = state.model_checkpoint_path
    return path if checkpoint_exists(path) or _foreign(path) else None


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """True if there is a checkpoint of that path."""
    return os.path.exists(checkpoint_prefix + SUFFIX)


def list_variables(ckpt_dir_or_file: str) -> list[tuple[str, list[int]]]:
    """Names and shapes in a checkpoint."""
    path = latest_checkpoint(ckpt_dir_or_file) if os.path.isdir(ckpt_dir_or_file) else ckpt_dir_or_file
    return [(k, list(v.shape)) for k, v in sorted(load_tensors(str(path) + SUFFIX))]


def load_variable(ckpt_dir_or_file: str, name: str) -> Any:
    """The value of a variable in a checkpoint."""
    path = latest_checkpoint(ckpt_dir_or_file) if os.path.isdir(ckpt_dir_or_file) else ckpt_dir_or_file
    return dict(load_tensors(str(path) + SUFFIX))[name.removesuffix(":0")].numpy()

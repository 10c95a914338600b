"""The content of a run's checkpoint. Rust's trainer writes and reads the same: tensors and the metadata ``trainer.*`` and
``plateau.*`` have one name in both languages; metadata ``python.*`` is of Python alone."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from .. import _native
from .._checked import checked, key_error
from .._native import Tensor
from ..optim.lr_scheduler import ReduceLROnPlateau
from ..utils.data import DataLoader

if TYPE_CHECKING:
    from .trainer import Trainer


def below(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors below a path, without it."""
    return {k[len(name) + 1 :]: v for k, v in tensors.items() if k.startswith(name + ".")}


@checked
def load_checkpoint(path: str | os.PathLike[str], part: str = "model") -> dict[str, Tensor]:
    """The tensors of one part of a checkpoint, by name: ``model.load_state_dict(load_checkpoint(path))``.

    ``path`` is a file or a URL such as ``History.checkpoint``; files that servers of the parameter store have written
    beside it are read as well, and everything is checked. Parts are ``"model"``, what a module calls some of it
    (``"model.encoder"``), or ``"optimizer"``.
    """
    tensors = _native.load_checkpoint(os.fspath(path))[3]
    found = below(tensors, part)
    if not found:
        parts = sorted({name.split(".")[0] for name in tensors})
        raise key_error(f"load_checkpoint: {path} has no {part!r}; it has {parts}")
    return found


def _numbers(optimizer: Any, group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a group that a schedule or a program may have changed, but for its rate."""

    def is_number(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def is_one(value: Any) -> bool:
        return all(map(is_number, value)) if isinstance(value, (tuple, list)) else is_number(value)

    return {k: group[k] for k in optimizer.defaults if k != "lr" and is_one(group.get(k))}


def variables(trainer: Trainer) -> list[tuple[str, Tensor]]:
    """Everything that is trained, with its path in checkpoints: the variables themselves, so that those in a parameter
    store can be updated."""
    parts = {"model": trainer.model._all_state(), "optimizer": trainer.optimizer._native.state()}
    return [(f"{part}.{name}", v) for part, state in parts.items() for name, v in state]


def notes(trainer: Trainer) -> dict[str, str]:
    """The metadata of a checkpoint."""
    groups, schedule = trainer.optimizer.param_groups, trainer._schedule
    own = {
        "order": trainer._order,
        "seed": getattr(trainer.loader, "seed", None),
        "rates": [g["lr"] for g in groups],
        "settings": [_numbers(trainer.optimizer, g) for g in groups],
        "schedule": schedule.state_dict() if schedule is not None else None,
        "loader": _loader_state(trainer.loader),
    }
    out = {**trainer._run.notes(), **{f"python.{k}": json.dumps(v) for k, v in own.items()}}
    if isinstance(schedule, ReduceLROnPlateau):
        plateau = {"lr": groups[0]["lr"], "bad": schedule.num_bad_epochs, "cooling": schedule.cooldown_counter}
        if math.isfinite(schedule.best):
            plateau["best"] = schedule.best
        out.update({f"plateau.{k}": repr(v) for k, v in plateau.items()})
    return out


def _loader_state(loader: Any) -> Any:
    """The position of the loader; ``None`` if it has none in JSON, and has to read again what was read."""
    if not isinstance(loader, DataLoader) or not loader.in_order:
        return None
    state = loader.state_dict()
    try:
        json.dumps(state)
    except TypeError:
        return None
    return state


def position(trainer: Trainer) -> Any:
    """The position in the data, as Rust's loader states it; ``None`` if the batches are not those of an indexed data set."""
    loader = trainer.loader
    if not isinstance(loader, DataLoader):
        return None
    return loader._position(trainer._run.epoch, trainer._run.batch)


def restore(trainer: Trainer, step: int, generator: Any, told: dict[str, str], tensors: dict[str, Tensor], at: Any) -> None:
    """Restores a checkpoint, or changes nothing."""
    before = trainer.model.state_dict()
    trainer.model.load_state_dict(below(tensors, "model"))
    try:
        trainer.optimizer.load_state_dict(_numbered(trainer, below(tensors, "optimizer")))
    except Exception:
        trainer.model.load_state_dict(before)
        raise
    recall(trainer, step, generator, told, at)


def _numbered(trainer: Trainer, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Optimizer state by parameter number: Rust's trainer once wrote names."""
    if all(k.split(".")[0] in ("step", "group", "state") for k in state):
        return state
    names = {v.variable_id: name for name, v in trainer.model._all_state() if hasattr(v, "variable_id")}
    for i, p in enumerate(trainer.trained()):
        name = names.get(p.variable_id)
        own = {k: v for k, v in state.items() if name is not None and k.rpartition(".")[0] == name}
        state = {**state, **{f"state.{i}.{k.rpartition('.')[2]}": v for k, v in own.items()}}
    return state


def recall(trainer: Trainer, step: int, generator: Any, told: dict[str, str], at: Any) -> None:
    """Restores the metadata of a checkpoint."""
    own = {k.removeprefix("python."): json.loads(v) for k, v in told.items() if k.startswith("python.")}
    trainer._run.restore(step, told, at)
    for group, rate in zip(trainer.optimizer.param_groups, own.get("rates", ())):
        group["lr"] = rate
    for group, settings in zip(trainer.optimizer.param_groups, own.get("settings", ())):
        for key, value in settings.items():
            value = tuple(value) if isinstance(value, list) else value
            if group.get(key) != value:
                group[key] = value
    if trainer._schedule is not None:
        _recall_schedule(trainer, step, own.get("schedule"), told)
    trainer._order = tuple(own["order"]) if own.get("order") else None
    loader = trainer.loader
    if own.get("seed") is not None and hasattr(loader, "seed"):
        loader.seed = own["seed"]
    if isinstance(loader, DataLoader):
        if own.get("loader") is not None:
            loader.load_state_dict(own["loader"])
        elif at is not None:
            loader._take_position(at)
    trainer.history.best = trainer._run.best
    _native.set_random_state(generator)


def _recall_schedule(trainer: Trainer, step: int, own: Any, told: dict[str, str]) -> None:
    schedule, groups = trainer._schedule, trainer.optimizer.param_groups
    if own is not None:
        schedule.load_state_dict(own)
    elif not isinstance(schedule, ReduceLROnPlateau):
        # Rust's schedules are functions of the step and leave nothing in a checkpoint.
        for group, rate in zip(groups, schedule.base_lrs):
            group["lr"] = rate
        for _ in range(step):
            schedule.step()
    elif "plateau.lr" in told:
        groups[0]["lr"] = float(told["plateau.lr"])
        schedule.best = float(told["plateau.best"]) if "plateau.best" in told else schedule.best
        schedule.num_bad_epochs, schedule.cooldown_counter = int(told["plateau.bad"]), int(told["plateau.cooling"])

"""Nothing of the Rust side is missing in Python: the lists are read from its source, so that they cannot lag. Names of
parameters are PyTorch's: the lists were written by PyTorch (scripts/torch_keys.py)."""

import inspect
import json
import re
from pathlib import Path

import pytest

import talweg as tw
from talweg import nn

HERE = Path(__file__).parent
RUST = HERE.parent.parent / "crates"


def public(path):
    """Names that a file of the Rust side exports: structures, also those that macros write."""
    text = (RUST / path).read_text()
    text = text[: text.find("#[cfg(test)]")] if "#[cfg(test)]" in text else text
    return re.findall(r"^pub struct (\w+)", text, re.M)


def exported(path):
    """Names of the `pub use` lines of a file."""
    lines = re.findall(r"^pub use \w+::(\w+|\{[^}]*\});", (RUST / path).read_text(), re.M)
    return [n for line in lines for n in re.findall(r"\w+", line)]


def spelled(name, where, renamed):
    """Python's name: as renamed, or the same but for the case of letters."""
    if name in renamed:
        return renamed[name]
    return next((n for n in dir(where) if n.lower() == name.lower()), None)


OPTIONS = {"RecurrentOptions", "TransformerOptions"}
LAYERS = {"BatchNorm": "BatchNorm2d", "Activation": "ReLU"}
SCHEDULES = {
    "Constant": "ConstantLR",
}
LOSSES = {
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "cross_entropy": "CrossEntropyLoss",
    "kl_div": "KLDivLoss",
}


def test_every_layer_is_there():
    names = [n for n in exported("nn/src/layers/mod.rs") if n not in OPTIONS]
    assert len(names) > 30
    missing = [n for n in names if not hasattr(nn, spelled(n, nn, LAYERS) or "")]
    assert not missing


# Sizes for a small layer of each row.
SIZES = {
    "in_features": 3, "out_features": 2, "in1_features": 3, "in2_features": 4, "in_channels": 2, "out_channels": 4, "kernel_size": 3, "num_embeddings": 5,
    "embedding_dim": 3, "normalized_shape": 3, "num_groups": 2, "num_channels": 4, "num_features": 3, "input_size": 3,
    "hidden_size": 4, "embed_dim": 8, "num_heads": 2, "d_model": 8, "nhead": 2, "num_classes": 4,
}  # fmt: skip


@pytest.mark.parametrize("name", tw._native.LAYERS)
def test_a_layer_has_the_settings_of_its_row(name):
    required, settings = tw._native.LAYERS[name]
    ours = inspect.signature(getattr(nn, name)).parameters
    assert [n for n, p in ours.items() if p.default is p.empty] == [n for n, *_ in required]
    assert {n: d for n, _, d, _ in settings} == {n: ours[n].default for n, *_ in settings}
    types = {n: t for n, t, *_ in [*required, *settings]}
    for n, t in types.items():  # Python may accept more
        assert set(t.split(" | ")) <= set(ours[n].annotation.split(" | ")), (n, t, ours[n].annotation)
    assert all(about for *_, about in [*required, *settings])


@pytest.mark.parametrize("name", tw._native.LAYERS)
def test_a_layer_has_the_parameters_of_its_row(name):
    required, _ = tw._native.LAYERS[name]
    sizes = {n: SIZES[n] for n, *_ in required}
    layer = getattr(nn, name)(**sizes)
    if "kernel_size" in sizes:
        sizes["kernel_size"] = (SIZES["kernel_size"],) * int(name[-2])
    state, parameters = layer.state_dict(), dict(layer.named_parameters())
    for n, shape, (kind, bound), is_buffer in tw._native.layer_parameters(name, sizes):
        assert list(state[n].shape) == shape and (n in parameters) != is_buffer, n
        values = state[n].abs()
        if kind == "uniform":
            assert 0 < values.max().item() <= bound and values.min().item() < values.max().item(), n
        elif kind in ("zeros", "ones"):
            assert values.min().item() == values.max().item() == (kind == "ones"), n
        else:
            assert kind == "normal" and values.max().item() > 0, n


def test_every_layer_with_parameters_has_a_row():
    rows = {n.lower() for n in tw._native.LAYERS}
    text = "".join(p.read_text() for p in (RUST / "nn/src/layers").glob("*.rs"))
    own = {m.lower() for m in re.findall(r"#\[derive\(Module[^)]*\)\]\npub struct (\w+)", text)}
    # Layers of other layers, and those that rows of several ranks stand for.
    others = {"sequential", "dropout", "activation", "quantizedlinear", "batchnorm", "transformerencoder", "transformerdecoder"}
    assert len(own) > 10 and not own - rows - others


def test_every_optimizer_is_there_with_its_settings():
    rules = tw._native.OPTIMIZERS
    assert len(rules) >= 9
    for name, (doc, settings) in rules.items():
        cls = getattr(tw.optim, spelled(name, tw.optim, {}) or "", None)
        assert cls is not None and doc, name
        ours = inspect.signature(cls).parameters
        assert {n: d for n, _, d, _ in settings} == {n: ours[n].default for n, *_ in settings}, name
        assert all(about for *_, about in settings), name
    assert spelled("Lbfgs", tw.optim, {})


def test_a_rule_of_rust_alone_gets_its_class_from_its_row():
    made = tw.optim.rules.of_row("Lion", tw._native.OPTIMIZERS["Lion"])
    assert str(inspect.signature(made)).startswith("(params, lr: 'float' = 0.0001, betas: 'tuple[float, float]' = (0.9, 0.99)")
    ends = []
    for cls in (made, tw.optim.Lion):
        w = nn.Parameter([1.0, -2.0])
        optimizer = cls([w], 0.1, weight_decay=0.5)
        w.square().sum().backward()
        optimizer.step()
        ends.append(w.tolist())
    assert ends[0] == ends[1] and "``betas``" in made.__doc__
    with pytest.raises(TypeError, match="momentum"):
        made([w], momentum=0.9)


DEFAULTS = json.loads((HERE / "torch_defaults.json").read_text())  # written by scripts/torch_defaults.py
# What differs on purpose.
OTHER = {}


def _same(ours, theirs):
    if isinstance(theirs, list):
        return isinstance(ours, (tuple, list)) and len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


def _defaults(name):
    """Defaults of ours that differ from PyTorch's: ``{setting: (ours, theirs)}``."""
    place, _, what = name.rpartition(".")
    thing = getattr(eval(f"tw.{place}", {"tw": tw}), what, None)
    if thing is None:
        return {}
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return {}
    ours = {n: p.default for n, p in parameters.items() if n in DEFAULTS[name]}
    return {n: (d, DEFAULTS[name][n]) for n, d in ours.items() if not _same(d, DEFAULTS[name][n])}


@pytest.mark.parametrize("place", ["nn", "nn.functional", "optim", "optim.lr_scheduler"])
def test_defaults_are_pytorchs(place):
    names = [n for n in DEFAULTS if n.rpartition(".")[0] == place and n not in OTHER]
    assert len(names) > 10
    found = {n: _defaults(n) for n in names}
    assert {n: d for n, d in found.items() if d} == {}


def test_every_schedule_is_there():
    missing = [n for n in public("nn/src/schedule.rs") if not hasattr(tw.optim.lr_scheduler, SCHEDULES.get(n, n))]
    assert not missing
    assert len(tw._native.SCHEDULES) >= 5
    for name, (doc, settings) in tw._native.SCHEDULES.items():
        ours = inspect.signature(getattr(tw.optim.lr_scheduler, name)).parameters
        assert doc and {n: d for n, _, d, _ in settings} == {n: ours[n].default for n, *_ in settings}, name


def test_every_metric_is_there():
    names = public("nn/src/metrics.rs")
    assert len(names) >= 5
    assert not [n for n in names if not hasattr(tw.metrics, n)]


def test_every_loss_is_there_as_function_and_module():
    inner = ("mod", "forms", "softmax_cross_entropy", "class_cross_entropy")  # what cross_entropy is made of
    names = [p.stem for p in (RUST / "ops/src/loss").glob("*.rs") if p.stem not in inner]
    assert len(names) >= 14
    for name in names:
        module = LOSSES.get(name) or spelled(name.replace("_", ""), nn, {})
        assert hasattr(nn.functional, name) and module and hasattr(nn, module), name


def test_every_initial_value_is_there():
    text = (RUST / "nn/src/init.rs").read_text()
    names = [n for n in re.findall(r"^pub fn (\w+)", text, re.M) if n != "fans"]
    renamed = {"truncated_normal": "trunc_normal_"}
    assert not [n for n in names if not hasattr(nn.init, renamed.get(n, n + "_"))]


def test_every_op_is_a_function_and_a_method():
    assert len(tw._native.OPS) > 250
    for name in tw._native.OPS:
        assert callable(getattr(tw.Tensor, name)) and hasattr(tw, name), name


KEYS = json.loads((HERE / "torch_keys.json").read_text())


@pytest.mark.parametrize("layer", KEYS)
def test_state_has_pytorchs_names(layer):
    ours = {n: list(t.shape) for n, t in eval(layer, {"nn": nn}).state_dict().items()}
    assert list(ours) == list(KEYS[layer]) and ours == KEYS[layer]


def test_the_list_of_keys_is_current():
    script = RUST.parent / "scripts" / "torch_keys.py"
    lines = re.search(r'LAYERS = """\n(.*?)"""', script.read_text(), re.S).group(1).splitlines()
    assert lines == list(KEYS), "run scripts/torch_keys.py"


def test_state_of_optimizers_tells_parameters_of_one_name_apart():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    o = tw.optim.Adam(model.parameters())
    model(tw.ones(1, 2)).sum().backward()
    o.step()
    state = o.state_dict()
    assert list(state["state"]) == [0, 1, 2, 3] and list(state["state"][3]) == ["step", "exp_avg", "exp_avg_sq"]
    other = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    again = tw.optim.Adam(other.parameters())
    again.load_state_dict(state)
    numbers = lambda state: {(i, n): t.tolist() for i, own in state["state"].items() for n, t in own.items()}
    assert numbers(again.state_dict()) == numbers(state)

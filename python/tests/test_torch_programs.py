"""Programs of `torch.export`, read without PyTorch."""

import io
import json
import zipfile
from pathlib import Path

import pytest

import talweg as tw

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "program.json").read_text())


@pytest.fixture
def program():
    return tw.from_torch(DATA / "program.pt2")


@pytest.mark.parametrize("case", CASES, ids=["traced", "other sizes"])
def test_values_and_gradients_are_pytorchs(program, case):
    logits, more = program(tw.tensor(case["image"]), tw.tensor(case["ids"]))
    assert logits.tolist() == [pytest.approx(row, rel=1e-4, abs=1e-5) for row in case["logits"]]
    assert more["best"].tolist() == case["best"]
    assert more["rows"].tolist() == pytest.approx(case["rows"], rel=1e-4)
    logits.square().sum().backward()
    for name, p in program.named_parameters():
        assert p.grad.reshape(-1)[:8].tolist() == pytest.approx(case["gradients"][name], rel=1e-3, abs=1e-4), name
    assert program.norm.running_mean.tolist() == pytest.approx(case["running_mean"], rel=1e-4, abs=1e-6)


def test_it_trains_and_follows_eval(program):
    image, ids = tw.tensor(CASES[0]["image"]), tw.tensor(CASES[0]["ids"])
    optimizer = tw.optim.Adam(program.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = tw.nn.functional.cross_entropy(program(image, ids)[0], tw.tensor([0, 1]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    program.eval()
    before = program.norm.running_mean.tolist()
    assert program(image, ids)[0].tolist() == program(image, ids)[0].tolist()
    assert program.norm.running_mean.tolist() == before


def test_names_are_pytorchs(program):
    assert "lstm.weight_hh_l0" in program.state_dict() and "norm.running_var" in program.state_dict()


def changed(edit):
    """The file with an entry changed: `edit(name, bytes)` returns the bytes, or `None` to leave it out."""
    source, made = zipfile.ZipFile(DATA / "program.pt2"), io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for info in source.infolist():
            data = edit(info.filename, source.read(info))
            if data is not None:
                out.writestr(info.filename, data)
    made.seek(0)
    return made


def text(ending, old, new):
    return changed(lambda name, data: data.replace(old, new) if name.endswith(ending) else data)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: io.BytesIO(b"PK no zip"), "no zip file"),
        (lambda: changed(lambda n, d: None if n.endswith("weight_0") else d), "no entry"),
        (lambda: changed(lambda n, d: d[:8] if n.endswith("weight_0") else d), "reaches beyond"),
        (lambda: text("model_weights_config.json", b'"use_pickle": false', b'"use_pickle": true'), "is a pickle"),
        (lambda: text("model.json", b"aten.conv2d.default", b"aten.evil.default"), "evil.default .*line 1"),
        (lambda: text("model.json", b"torch.ops.aten.silu.default", b"os.system"), "os.system"),
        (lambda: text("model_weights_config.json", b'"dtype": 7', b'"dtype": 99'), "element type 99"),
        (lambda: text("model.json", b"{", b"["), "no JSON"),
        (lambda: text("model.json", b'"signature"', b'"signatura"'), "not as it should be"),
    ],
)
def test_a_file_that_is_wrong_says_so(make, says):
    with pytest.raises(tw.FormatError, match=says):
        tw.from_torch(make())


def test_a_compressed_entry_is_refused():
    source, made = zipfile.ZipFile(DATA / "program.pt2"), io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as out:
        for info in source.infolist():
            out.writestr(info.filename, source.read(info))
    made.seek(0)
    with pytest.raises(tw.FormatError, match="is compressed"):
        tw.from_torch(made)


def test_a_module_of_pytorch_becomes_one_here():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 2)).eval()
    ours = tw.from_torch(theirs, (torch.ones(1, 3),))
    assert ours(tw.ones(1, 3)).tolist() == [pytest.approx(theirs(torch.ones(1, 3)).tolist()[0], rel=1e-5)]
    with pytest.raises(tw.ArgumentError, match="example"):
        tw.from_torch(theirs)

"""Batches that do not divide among workers, and dropout: workers take the steps of one process."""

import re
import subprocess
import sys

import pytest
from test_launch import TALWEG

pytestmark = pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")

SCRIPT = """
import sys
import talweg as tw

samples, batch, drop, how = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
tw.manual_seed(0)
x = tw.randn(samples, 6)
y = x @ tw.randn(6, 1)
model = tw.nn.Sequential(tw.nn.Linear(6, 16), tw.nn.ReLU(), tw.nn.Dropout(drop), tw.nn.Linear(16, 1))
optimizer = tw.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
def loss(x, y):
    F = tw.nn.functional
    q = x.reshape(-1, 1, 3, 2)
    x = x + F.scaled_dot_product_attention(q, q, q, dropout_p=drop).reshape(x.shape)
    hidden = F.alpha_dropout(F.dropout(model(x), drop / 2), drop / 4, training=True)
    hidden = F.dropout1d(hidden.unsqueeze(-1), drop / 4).squeeze(-1)
    return (hidden - y).square().mean()
if how == "loop":
    for epoch in range(3):
        for first in range(0, samples, batch):
            mine = [tw.distributed.shard(v[first : first + batch]) for v in (x, y)]
            loss(*mine).backward()
            optimizer.step()
else:
    loader = tw.utils.data.DataLoader((x, y), batch_size=batch, shuffle=True)
    tw.train.Trainer(model, optimizer, loader, epochs=3, jit=how == "jit", progress=False).fit(loss)
print("ends with", [v for p in model.parameters() for v in p.numpy().ravel().tolist()])
"""


def run(folder, words, *args):
    script = folder / "parts.py"
    script.write_text(SCRIPT)
    done = subprocess.run([*words, sys.executable, str(script), *args], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return [eval(e) for e in re.findall(r"ends with (.*)", done.stdout)]


# The last batch of 15 for two, 64 for three, and a last batch of one: two of three workers have no example.
@pytest.mark.parametrize("samples, batch, workers", [("47", "16", "2"), ("128", "64", "3"), ("33", "16", "3")])
@pytest.mark.parametrize("how", ["trainer", "jit", "loop"])
def test_parts_of_unequal_size_give_the_result_of_one_process(tmp_path, samples, batch, workers, how):
    args = [samples, batch, "0.3", how]
    (alone,) = run(tmp_path, [], *args)
    found = {}
    for servers in ["0", "1"]:
        words = [str(TALWEG), "launch", "--workers", workers, "--servers", servers]
        found[servers] = run(tmp_path, words, *args)
        assert len(found[servers]) == int(workers)
        assert all(e == found[servers][0] for e in found[servers]), servers
        assert found[servers][0] == pytest.approx(alone, abs=2e-6), servers
    # Once more: the same bits.
    assert run(tmp_path, [str(TALWEG), "launch", "--workers", workers, "--servers", "0"], *args) == found["0"]


def test_it_is_the_parts_that_agree_with_one_process(tmp_path):
    """The test above would notice other masks: without dropout the result is another."""
    assert run(tmp_path, [], "47", "16", "0.3", "jit") != run(tmp_path, [], "47", "16", "0.0", "jit")

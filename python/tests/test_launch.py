"""An ordinary script on several processes, if the `talweg` command has been built."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TALWEG = next((p for p in (TARGET / "debug/talweg", TARGET / "release/talweg") if p.exists()), None)

SCRIPT = """
import talweg as tw
from talweg import nn, optim

tw.manual_seed(0)
x = tw.randn(8, 3)
y = (x * tw.tensor([1.0, -2.0, 0.5])).sum(1, keepdims=True)
model = nn.Linear(3, 1)
optimizer = optim.Adam(model.parameters(), lr=0.1)
mine, wanted = tw.distributed.shard(x), tw.distributed.shard(y)
for step in range(20):
    assert tw.distributed.meet(lambda: b"") is None
    optimizer.zero_grad()
    ((model(mine) - wanted) ** 2).mean().backward()
    optimizer.step()
print("weights", [v for p in model.parameters() for v in p.numpy().ravel().tolist()])
"""


def run(words, folder, cwd=None):
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = [*words, sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return [eval(w) for w in re.findall(r"weights (\[.*\])", done.stdout)]


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers", ["0", "1"])
def test_workers_agree_and_learn_what_one_process_learns(tmp_path, servers):
    (alone,) = run([], tmp_path)
    both = run([str(TALWEG), "launch", "--workers", "2", "--servers", servers], tmp_path)
    assert len(both) == 2 and both[0] == both[1]
    # The mean of two means of halves is rounded otherwise than one mean.
    assert both[0] == pytest.approx(alone, abs=1e-4)


TRAINED = """
import os, signal, sys, time
import talweg as tw
from talweg.utils.data import DataLoader, digits

tw.manual_seed(0)
model = tw.nn.Sequential(tw.nn.Flatten(), tw.nn.Linear(784, 16), tw.nn.ReLU(), tw.nn.Dropout(0.1), tw.nn.Linear(16, 10))
fallen, checkpoints = sys.argv[1], sys.argv[2]

class Shuffled:
    # A loader that knows nothing of being taken up in its middle.

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return 10

    def __iter__(self):
        for rows in tw.randperm(640).reshape(10, 64):
            yield self.images[rows], self.labels[rows]

class Fall(tw.train.Callback):
    # The second worker falls once; the first goes slowly until it is back.

    def on_begin(self, trainer):
        if tw.distributed.rank() == 1 and fallen and os.path.exists(fallen):
            open(fallen + "-again", "w").close()

    def on_step(self, trainer, loss):
        if trainer.step == 13 and tw.distributed.rank() == 1 and fallen and not os.path.exists(fallen):
            open(fallen, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if fallen and trainer.step >= 13 and not os.path.exists(fallen + "-again"):
            time.sleep(0.15)

trainer = tw.train.Trainer(
    model,
    tw.optim.Adam(model.parameters()),
    Shuffled(*digits(640)) if "shuffled" in checkpoints else DataLoader(digits(640), batch_size=64, shuffle=True),
    steps=80,
    checkpoints=checkpoints,
    save_every=20,
    callbacks=[Fall()],
    jit=True,
)
trainer.fit(lambda x, y: tw.nn.functional.cross_entropy(model(x.float() / 255), y))
assert trainer.step == 80
print("weights", [v for p in model.parameters() for v in p.numpy().ravel().tolist()])
"""


def train(words, folder, fallen="", loader="run"):
    script = folder / "train.py"
    script.write_text(TRAINED)
    checkpoints = folder / f"{loader}{len(list(folder.iterdir()))}"
    command = [*words, sys.executable, str(script), str(fallen), str(checkpoints)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(checkpoints.glob("*.safetensors"))) == 3, "the first worker saves"
    return [eval(w) for w in re.findall(r"weights (\[.*\])", done.stdout)]


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers, loader", [("0", "run"), ("1", "run"), ("1", "shuffled")])
def test_an_unchanged_trainer_shares_its_batches_and_survives_a_killed_worker(tmp_path, servers, loader):
    words = [str(TALWEG), "launch", "--workers", "2", "--servers", servers]
    calm = train(words, tmp_path, loader=loader)
    assert len(calm) == 2 and calm[0] == calm[1]
    (tmp_path / "fallen").mkdir()
    hit = train(words, tmp_path, tmp_path / "fallen" / "once", loader)
    assert (tmp_path / "fallen" / "once").exists()
    assert len(hit) == 2 and hit[0] == hit[1]
    if servers == "0":
        # The survivor made steps of its own meanwhile.
        assert hit[0] == pytest.approx(calm[0], abs=0.5)
    else:
        # Nothing was lost, and the replacement drew the masks of its steps.
        assert hit[0] == calm[0]


COLLECTIVES = """
import sys
import talweg as tw
from talweg import distributed as dist

rank = dist.rank()
F = dist.functional
x = tw.tensor([1.0 + rank, 2.0]).requires_grad_()
(F.all_reduce(x, "max") * tw.tensor([1.0, 10.0])).sum().backward()
said = [x.grad.tolist(), F.all_gather(tw.tensor([rank])).tolist()]
said.append(F.all_to_all(tw.arange(4).reshape(2, 2) + 10 * rank).tolist())
said.append(F.reduce_scatter(tw.arange(4)).tolist())
said.append(F.broadcast(tw.tensor(rank), 1).item())
said.append(dist.split_group(rank).ranks + dist.new_group([1, 0]).ranks)

@tw.jit
def swap(x):
    if rank == 0:
        F.send(x, 1)
        return F.recv(x, 1)
    got = F.recv(x, 0)
    F.send(x * 2, 0)
    return got

said.append([swap(tw.tensor([7.0 + rank])).item() for _ in range(2)])
said.append(F.all_reduce(tw.full((3,), 1.0 + rank), wire="bf16").tolist())
dist.barrier()
print(f"rank {rank} said {said}", flush=True)
if sys.argv[1] == "differ":
    dist.all_reduce(tw.ones(3 + rank))
elif sys.argv[1] == "wait" and rank == 0:
    dist.all_reduce(tw.ones(3))
elif sys.argv[1] == "wait":
    import time
    time.sleep(8)
elif sys.argv[1] == "leave" and rank == 0:
    dist.all_reduce(tw.ones(3))
"""


def launched(folder, what, **env):
    script = folder / "collectives.py"
    script.write_text(COLLECTIVES)
    # Who does not come is not struck: the others' deadline is what is tested.
    options = ["--workers", "2", "--max-restarts", "0", "--hang-timeout", "0"]
    words = [str(TALWEG), "launch", *options, sys.executable, str(script), what]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, **env})


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
def test_collectives_between_processes(tmp_path):
    done = launched(tmp_path, "end")
    assert done.returncode == 0, done.stdout + done.stderr
    said = {int(r): eval(s) for r, s in re.findall(r"rank (\d) said (.*)", done.stdout)}
    # Both ranks have the second element's maximum: they share its gradient.
    assert said[0] == [[0, 10], [0, 1], [[0, 1], [10, 11]], [0, 2], 1, [0, 0, 1], [16, 16], [3, 3, 3]]
    assert said[1] == [[2, 10], [0, 1], [[2, 3], [12, 13]], [4, 6], 1, [1, 0, 1], [7, 7], [3, 3, 3]]


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize(
    "what, text",
    [
        ("differ", "of 3 elements of float32 by sum, this rank calls all_reduce of 4 elements"),
        ("wait", "the deadline passed"),
        ("leave", "over ranks [0, 1]"),
    ],
)
def test_collectives_that_cannot_be_done_end_with_an_error(tmp_path, what, text):
    done = launched(tmp_path, what, TALWEG_TIMEOUT="3")
    assert done.returncode != 0
    assert text in done.stdout + done.stderr, done.stdout + done.stderr
    # The user's line is named.
    assert "collectives.py" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "variables, text",
    [
        ({"RANK": "0"}, "RANK is set, but WORLD_SIZE is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2 does not exist"),
        ({"TALWEG_PARALLEL": "yes"}, "TALWEG_PARALLEL must be 1 or 0, not 'yes'"),
        ({"RANK": "0", "WORLD_SIZE": "1", "TALWEG_TIMEOUT": "soon"}, "TALWEG_TIMEOUT must be a number, not 'soon'"),
        ({"RANK": "1", "WORLD_SIZE": "2", "TALWEG_TIMEOUT": "1", "MASTER_PORT": "9"}, "meet at 127.0.0.1:10 within 1 s"),
    ],
)
def test_who_cannot_join_is_told_why(variables, text):
    script = "import talweg as tw; tw.optim.SGD([tw.nn.Parameter([1.0])])"
    env = {**os.environ, "TALWEG_PARALLEL": "1", **variables}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode != 0 and "joining the other workers: " in done.stderr, done.stderr
    assert text in done.stderr.replace('"', "'"), done.stderr


@pytest.mark.parametrize(
    "call, text",
    [
        ("dist.all_reduce(x, 'avg')", "op must be sum, mean, prod, max or min, not 'avg'"),
        ("dist.functional.all_reduce(x, wire='int4')", "wire must be exact, bfloat16 or int8, not 'int4'"),
        ("dist.functional.all_reduce(x, 'max', wire='int8')", "only sums and means are sent as int8"),
        ("dist.all_reduce(x, group=3)", "group must be a Group, not the number 3"),
        ("dist.functional.all_reduce(x, group=3)", "'int' object is not an instance of 'Group'"),
        ("dist.all_gather([x, x], x)", "tensor_list has 2 tensors for 1 ranks"),
        ("dist.all_gather(x, x)", "tensor_list must be a list of 1 tensors, not Tensor"),
        ("dist.all_gather([tw.ones(2)], x)", "the result has shape (3,), but is to be written to (2,)"),
        ("dist.recv(x)", "the sender must be named: give src"),
        ("dist.all_reduce(x, opp=3)", "all_reduce() got an unexpected keyword 'opp'; did you mean 'op'? It takes (tensor, op"),
        ("dist.broadcast(x, -1)", "ranks are counted from 0: there is no -1"),
        ("dist.broadcast(x, 7)", "7 is not one of 1 ranks"),
        ("dist.send(x, 0)", "a rank does not exchange with itself"),
        ("dist.new_group([0, 1])", "there is no rank 1 in a group of 1"),
        ("dist.meet(3)", "expected a function that returns bytes, not int"),
    ],
)
def test_wrong_arguments_of_collectives_are_told(call, text):
    import talweg as tw

    with pytest.raises(tw.Error) as e:
        eval(call, {"dist": tw.distributed, "tw": tw, "x": tw.ones(3)})
    assert text in str(e.value).replace('"', "'"), str(e.value)


ENDING = """
import os, resource, signal, sys, time
import talweg as tw
from talweg.utils.data import DataLoader, digits

what, folder = sys.argv[1:]
is_first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
rank = int(os.environ["RANK"])
tw.manual_seed(0)
model = tw.nn.Sequential(tw.nn.Flatten(), tw.nn.Linear(784, 10))
if what == "full":
    # Everything that is longer does not fit on the disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

class Fault(tw.train.Callback):
    def on_step(self, trainer, loss):
        time.sleep(0.005)
        if what == "exit" and rank == 1 and trainer.step == 10:
            sys.exit(0)
        if what == "hang" and rank == 1 and trainer.step == 10 and is_first_life:
            time.sleep(1000)
        if what == "raise" and rank == 1 and trainer.step == 10:
            raise RuntimeError("always")

trainer = tw.train.Trainer(
    model,
    tw.optim.SGD(model.parameters(), lr=0.1),
    DataLoader(digits(320), batch_size=32, shuffle=True),
    steps=40,
    checkpoints=folder,
    save_every=1000,
    callbacks=[Fault()],
    progress=False,
)
if what == "last" and rank == 0 and is_first_life:
    trainer._save = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if what != "full":
    trainer.resume()
trainer.fit(lambda x, y: tw.nn.functional.cross_entropy(model(x.float() / 255), y))
print("stopped at", trainer.step, flush=True)
"""


def ending(tmp_path, what, *args, workers="2", checkpoints="run"):
    script = tmp_path / "ending.py"
    script.write_text(ENDING)
    program = [sys.executable, str(script), what, str(tmp_path / checkpoints)]
    words = [str(TALWEG), "launch", "--workers", workers, *args, *program]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def saved(tmp_path, step):
    return (tmp_path / "run" / f"step-{step:010}.safetensors").exists()


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers", ["0", "2"])
def test_a_saver_that_is_killed_in_its_last_checkpoint_is_replaced(tmp_path, servers):
    done = ending(tmp_path, "last", "--servers", servers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert saved(tmp_path, 40) and "newest checkpoint: step 40" in done.stdout
    assert done.stdout.count("stopped at 40") == 2, done.stdout


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers", ["0", "2"])
def test_a_full_disk_is_no_success(tmp_path, servers):
    done = ending(tmp_path, "full", "--servers", servers, "--max-restarts", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert not saved(tmp_path, 40) and "no checkpoint" in done.stdout, done.stdout


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("what", ["exit", "raise"])
def test_a_rank_that_does_not_do_its_part_fails_the_job(tmp_path, what):
    done = ending(tmp_path, what, "--max-restarts", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 workers are left, fewer than 2: the job ends" in done.stdout, done.stdout
    allowed = ending(tmp_path, what, "--max-restarts", "0", workers="1:2", checkpoints="other")
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    assert "1 of 2 workers done" in allowed.stdout and "lost for good: 1" in allowed.stdout, allowed.stdout


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers", ["0", "2"])
def test_a_rank_that_hangs_is_named_and_replaced(tmp_path, servers):
    done = ending(tmp_path, "hang", "--servers", servers, "--hang-timeout", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"worker 1 has not moved for \d+ s and worker 0 waits for it: it is ended", done.stdout), done.stdout
    assert done.stdout.count("stopped at 40") == 2, done.stdout
    assert "worker 0 ended" not in done.stdout, "the healthy one was blamed"


LEAVES = SCRIPT.replace("for step in range(20)", "import os\nfor step in range(5 if os.environ['RANK'] == '1' else 20)")


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
def test_a_loop_of_its_own_that_ends_early_is_noticed(tmp_path):
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    words = [str(TALWEG), "launch", "--workers", "2", sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "worker 1 ended well after 7 exchanges, but the others went on" in done.stdout, done.stdout


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
def test_a_program_with_an_error_in_it_is_run_once(tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text("import talweg as tw\ntw.nn.Linear(3, 1)(tw.ones(2, 4)).sum().item()\n")
    words = [str(TALWEG), "launch", "--workers", "2", sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "before its first step: the program is not started again" in done.stdout, done.stdout
    assert done.stdout.count("Traceback") == 1, done.stdout


def test_errors_between_processes_are_what_python_calls_them():
    import talweg as tw

    assert issubclass(tw.PeerLostError, ConnectionError) and issubclass(tw.DeadlineError, TimeoutError)
    assert issubclass(tw.RefusedError, ConnectionError) and not issubclass(tw.DeadlineError, tw.FileError)
    script = """
import talweg as tw
try:
    tw.optim.SGD([tw.nn.Parameter([1.0])])
except tw.DeadlineError as e:
    print("late", e)
"""
    env = {**os.environ, "TALWEG_PARALLEL": "1", "RANK": "0", "WORLD_SIZE": "2", "TALWEG_TIMEOUT": "1", "MASTER_PORT": "0"}
    env["MASTER_PORT"] = str(free_port())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout.startswith("late"), done.stdout + done.stderr


def free_port():
    import socket

    # Below the ephemeral range: binding port 0 never returns it.
    for port in range(10_000 + os.getpid() % 20_000, 32_000):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) != 0:
                return port


PACE = """
import sys, time
import talweg as tw
from talweg.utils.data import DataLoader, digits

tw.manual_seed(0)
model = tw.nn.Sequential(tw.nn.Flatten(), tw.nn.Linear(784, 10))

class Slow(tw.train.Callback):
    def on_step(self, trainer, loss):
        time.sleep(0.02 * tw.distributed.rank())

trainer = tw.train.Trainer(
    model,
    tw.optim.SGD(model.parameters(), lr=float(sys.argv[1])),
    DataLoader(digits(640), batch_size=64, shuffle=True),
    steps=8,
    checkpoints=sys.argv[2],
    callbacks=[Slow()],
)
trainer.fit(lambda x, y: tw.nn.functional.cross_entropy(model(x.float() / 255), y))
print("final", hash(tuple(v for p in model.parameters() for v in p.numpy().ravel().tolist())))
"""


def pace(folder, args, rate):
    script = folder / "pace.py"
    script.write_text(PACE)
    command = [str(TALWEG), "launch", "--workers", "2", *args, sys.executable, str(script), rate, str(folder / "saved")]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
def test_workers_at_their_own_pace_end_with_everybodys_updates(tmp_path):
    done = pace(tmp_path, ["--servers", "1", "--consistency", "async"], "0.1")
    finals = re.findall(r"final (\S+)", done.stdout)
    assert done.returncode == 0 and len(finals) == 2 and finals[0] == finals[1], done.stdout + done.stderr


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers", ["0", "1"])
def test_a_run_that_diverges_fails_however_often_it_is_started_again(tmp_path, servers):
    done = pace(tmp_path, ["--servers", servers, "--max-restarts", "10"], "1e38")
    assert done.returncode != 0 and "final" not in done.stdout, done.stdout
    assert "NumericsError" in done.stdout


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
def test_membership_in_etcd(tmp_path):
    program = shutil.which(os.environ.get("TALWEG_ETCD", "etcd"))
    if program is None:
        pytest.skip("etcd is not installed")
    ports = []
    for _ in range(2):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
    client, peer = (f"http://127.0.0.1:{p}" for p in ports)
    words = [program, "--data-dir", str(tmp_path / "data"), "--initial-cluster", f"default={peer}"]
    words += ["--listen-client-urls", client, "--advertise-client-urls", client]
    words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    etcd = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        at = f"etcd://127.0.0.1:{ports[0]}/python"
        both = run([str(TALWEG), "launch", "--workers", "2", "--servers", "1", "--membership", at], tmp_path, tmp_path)
    finally:
        etcd.kill()
        etcd.wait()
    assert len(both) == 2 and both[0] == both[1]

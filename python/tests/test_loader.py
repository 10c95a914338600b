"""Loaders with worker processes: the same batches in the same order, whatever dies, fails, hangs or resumes."""

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections import namedtuple

import numpy as np
import pytest

import talweg as tw
from talweg.utils.data import DataLoader, Dataset, IterableDataset, WorkerError, WorkerTimeout, get_worker_info


class Noisy(Dataset):
    """Examples with a random part of each generator."""

    def __init__(self, n=23):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return tw.tensor(float(i)), np.full((64, 64), i, "int32"), random.random(), np.random.rand(), tw.rand(2)


class Stream(IterableDataset):
    """The numbers of a range, each worker its part."""

    def __init__(self, n=23):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        for i in range(self.n) if info is None else range(info.id, self.n, info.num_workers):
            yield i, tw.rand(1)


class Kept(Stream):
    """A stream that says where it is."""

    def __init__(self, n=23):
        super().__init__(n)
        self.at, self.read = 0, 0

    def __iter__(self):
        info = get_worker_info()
        part = range(self.n) if info is None else range(info.id, self.n, info.num_workers)
        while self.at < len(part):
            self.at += 1
            self.read += 1
            yield part[self.at - 1], self.read
        self.at = 0  # the next pass

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def plain(batches):
    return [[part.tolist() for part in b] for b in batches]


@pytest.mark.parametrize("settings", [{}, {"persistent_workers": True}, {"prefetch_factor": 1}, {"multiprocessing_context": "spawn"}, {"multiprocessing_context": "forkserver"}])
def test_any_number_of_workers_makes_the_same_batches(settings):
    def seen(n, **settings):
        tw.manual_seed(4)
        loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=n, **settings)
        return plain(loader) + plain(loader)

    expected = seen(1)
    assert seen(2 if "multiprocessing_context" in settings else 3, **settings) == expected and len(expected) == 12
    assert len({x for b in expected for x in b[2]}) == 46  # no random number came twice
    tw.manual_seed(4)
    alone = plain(DataLoader(Noisy(), batch_size=4, shuffle=True))
    assert [b[:2] for b in alone] == [b[:2] for b in expected[:6]]


Point = namedtuple("Point", "x y")


class Odd(Dataset):
    """Everything that an example may hold."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        big = tw.full((300, 50), float(i))
        types = {"half": big.bfloat16(), "complex": big.to(tw.complex64), "bool": tw.tensor(i > 1), "empty": tw.zeros(0)}
        return {"word": str(i), "bytes": b"x", "point": Point(i, float(i)), "types": types, "text": "long " * 9000}


def test_workers_hand_over_everything():
    def told(x):
        if isinstance(x, tw.Tensor):
            return x.dtype, x.shape, x.tolist()
        if isinstance(x, dict):
            return {k: told(v) for k, v in x.items()}
        return type(x)(*map(told, x)) if isinstance(x, Point) else x

    expected = [told(b) for b in DataLoader(Odd(), batch_size=2)]
    assert [told(b) for b in DataLoader(Odd(), batch_size=2, num_workers=2)] == expected
    assert expected[0]["point"].x[2] == [0, 1] and expected[0]["types"]["half"][0] == tw.bfloat16
    assert expected[0]["point"].y[0] == tw.float64 and expected[0]["bytes"] == [b"x", b"x"]


def test_many_batches_ahead():
    """More messages under way than the sockets hold."""
    words = ["a" * 6000] * 600
    loader = DataLoader(words, batch_size=1, num_workers=1, prefetch_factor=600)
    batches = iter(loader)
    first = next(batches)
    time.sleep(0.3)  # the worker goes on
    assert first == words[:1] and sum(1 for _ in batches) == 599
    wide = DataLoader(range(90_000), batch_size=1500, num_workers=2, prefetch_factor=60)
    assert sum(b.sum().item() for b in wide) == 90_000 * 89_999 // 2


def test_batches_of_workers_are_the_loader_s_own():
    kept = list(DataLoader(Noisy(), batch_size=4, num_workers=2))
    assert [b[1][0, 0, 0].item() for b in kept] == [0, 4, 8, 12, 16, 20]
    assert [b[0].sum().item() for b in kept] == [6.0, 22.0, 38.0, 54.0, 70.0, 63.0]


@pytest.mark.parametrize("n", [0, 1, 3])
def test_streams(n):
    loader = DataLoader(Stream(), batch_size=2, num_workers=n)
    got = [b[0].tolist() for b in loader]
    assert sorted(sum(got, [])) == list(range(23)) and got == [b[0].tolist() for b in loader]
    if n == 3:
        assert got[:4] == [[0, 3], [1, 4], [2, 5], [6, 9]]
    assert len(list(DataLoader(Stream(), batch_size=2, num_workers=n, drop_last=True))) == 11
    with pytest.raises(TypeError):
        len(loader)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("make", [Noisy, Stream, Kept])
def test_a_loader_resumes_exactly(n, make):
    def loader(seed):
        tw.manual_seed(seed)
        return DataLoader(make(), batch_size=2, shuffle=make is Noisy, num_workers=n)

    def numbers(batches):
        return [(b[0].tolist(), b[-1].tolist() if n and make is not Kept else None) for b in batches]

    for stop in [0, 1, 5, 9]:
        first = loader(1)
        numbers(first)  # a whole pass before
        batches = iter(first)
        before = numbers(next(batches) for _ in range(stop))
        state = pickle.loads(pickle.dumps(first.state_dict()))
        rest, following = numbers(batches), numbers(first)
        second = loader(2)
        second.load_state_dict(state)
        assert numbers(second) == rest and numbers(second) == following
        if make is not Kept:
            assert len(before) + len(rest) == 12 if n != 3 or make is Noisy else True
    if make is Kept:
        again = loader(3)
        again.load_state_dict(state)
        assert max(max(b[1].tolist()) for b in again) <= 23 - (18 if n < 2 else 0)  # nothing was read again


@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("kind", ["random", "weighted", "subset", "distributed", "own", "generator"])
def test_samplers_resume_exactly(n, kind):
    class Own:
        """A sampler that draws as it goes."""

        def __iter__(self):
            return (tw.randint(0, 23, (1,)).item() for _ in range(23))

        def __len__(self):
            return 23

    def loader():
        data = Noisy()
        made = {
            "random": lambda: tw.utils.data.RandomSampler(data, replacement=True, num_samples=23),
            "weighted": lambda: tw.utils.data.WeightedRandomSampler([1.0] * 23, 23),
            "subset": lambda: tw.utils.data.SubsetRandomSampler(range(23)),
            "distributed": lambda: tw.utils.data.DistributedSampler(data, 1, 0),
            "own": Own,
        }
        if kind == "generator":
            return DataLoader(data, batch_size=2, shuffle=True, generator=random.Random(5), num_workers=n)
        return DataLoader(data, batch_size=2, sampler=made[kind](), num_workers=n)

    first = loader()
    if kind == "distributed":
        first.sampler.set_epoch(7)
    batches = iter(first)
    [next(batches) for _ in range(3)]
    state = first.state_dict()
    rest = [b[0].tolist() for b in batches]
    second = loader()
    second.load_state_dict(state)
    tw.rand(3)
    assert [b[0].tolist() for b in second] == rest and len(rest) == 9


def test_a_trainer_resumes_with_workers(tmp_path):
    def run(**settings):
        tw.manual_seed(1)
        w = tw.nn.Linear(2, 1)
        loader = DataLoader(Noisy(12), batch_size=2, sampler=tw.utils.data.RandomSampler(range(12)), num_workers=2)
        optimizer = tw.optim.SGD(w.parameters(), lr=1e-2)
        t = tw.train.Trainer(w, optimizer, loader, epochs=3, progress=False, **settings)
        return t, lambda i, a, b, c, x: (w(x) * i).square().mean()

    class Stop(tw.train.Callback):
        def on_step(self, trainer, loss):
            if trainer.step == 8:
                trainer.stop()

    whole, loss = run()
    expected = whole.fit(loss).losses
    first, loss = run(checkpoints=tmp_path, callbacks=[Stop()])
    first.fit(loss)
    tw.rand(5)
    second, loss = run(checkpoints=tmp_path)
    tw.rand(5)
    assert second.resume() == 8
    assert first.history.losses + second.fit(loss).losses == expected


class Failing(Noisy):
    def __getitem__(self, i):
        if i == 13:
            raise KeyError("no such thing")  # the line of the user
        return i


def test_what_a_worker_raises_is_raised_here():
    got = []
    with pytest.raises(KeyError) as info:
        for b in DataLoader(Failing(), batch_size=4, num_workers=2):
            got.append(b.tolist())
    line = next(i for i, text in enumerate(open(__file__), 1) if "the line of the user" in text)
    assert len(got) == 3 and f'test_loader.py", line {line}' in str(info.value) and "no such thing" in str(info.value)
    assert "worker process 1" in str(info.value) and "dataloader.py" not in str(info.value)

    def init(worker):
        raise OSError(f"init of {worker}")

    with pytest.raises(OSError, match="init of 0"):
        list(DataLoader(Failing(), num_workers=2, worker_init_fn=init))

    class Two(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)

    class Raising(Stream):
        def __iter__(self):
            raise Two("one", "two")

    with pytest.raises(WorkerError, match="(?s)'one', 'two'.*in __iter__"):
        list(DataLoader(Raising(), num_workers=1))


def test_what_cannot_be_pickled_is_an_error_with_a_reason():
    class Closures(Noisy):
        def __getitem__(self, i):
            return lambda: i

    with pytest.raises((AttributeError, pickle.PicklingError, TypeError), match="(?i)lambda|pickle"):
        list(DataLoader(Closures(), num_workers=1, collate_fn=list))


class Deadly(Noisy):
    """An example of which the process dies."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def __getitem__(self, i):
        if i == 9:
            if self.how == "sleep":
                time.sleep(600)
            if isinstance(self.how, int):
                os.kill(os.getpid(), self.how)
                time.sleep(600)
            os._exit(3)
        return i


@pytest.mark.parametrize(
    "how, text",
    [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGTERM, "killed by SIGTERM"), ("exit", "exit status 3")],
)
@pytest.mark.parametrize("in_order", [True, False])
def test_a_dead_worker_is_told(how, text, in_order):
    def workers():
        return {c.pid for c in tw.utils.data.worker.multiprocessing.active_children() if c.name.startswith("talweg-worker")}

    before = workers()
    with pytest.raises(WorkerError, match=rf"worker process \d \(pid \d+\) .*{text}") as info:
        for _ in DataLoader(Deadly(how), batch_size=2, num_workers=2, in_order=in_order):
            pass
    assert isinstance(info.value, RuntimeError) and "test_loader.py" in str(info.value)
    assert not workers() - before


@pytest.mark.parametrize("persistent", [True, False])
def test_a_worker_killed_from_outside_is_told(persistent):
    loader = DataLoader(Noisy(400), batch_size=1, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    next(batches)
    pid = next(p.pid for p in tw.utils.data.worker.multiprocessing.active_children() if p.name == "talweg-worker-1")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="killed by SIGKILL"):
        list(batches)
    assert len(list(loader)) == 400  # with new workers


def test_a_worker_that_was_forked_at_a_bad_time_is_told(monkeypatch):
    worker = tw.utils.data.worker
    monkeypatch.setattr(worker, "_START_SECONDS", 0.2)
    monkeypatch.setattr(worker, "_compute", lambda: time.sleep(600))  # a lock that stays locked
    with pytest.raises(WorkerError, match="another thread was computing.*spawn"):
        list(DataLoader(Noisy(), num_workers=2))


def test_a_timeout_is_told():
    with pytest.raises(WorkerTimeout, match="timeout=0.3") as info:
        list(DataLoader(Deadly("sleep"), batch_size=2, num_workers=1, timeout=0.3))
    assert isinstance(info.value, TimeoutError) and isinstance(info.value, RuntimeError)


def test_passes_left_early_leave_no_process():
    def count():
        return len([c for c in tw.utils.data.worker.multiprocessing.active_children() if c.name.startswith("talweg-worker")])

    before = count()
    for _ in DataLoader(Noisy(), num_workers=2):
        break
    assert count() == before
    loader = DataLoader(Noisy(), num_workers=2, persistent_workers=True)
    for _ in range(2):
        for b in loader:
            break
    assert b[0].item() == 0 and count() == before + 2
    one, two = iter(loader), iter(loader)
    next(one), next(two)
    with pytest.raises(ValueError, match="another pass has begun"):
        list(one)
    assert len(list(two)) == 22
    del one, two, loader
    assert count() == before


PROGRAM = """
import sys, time, os
import talweg as tw
from talweg.utils.data import DataLoader

class Slow:
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep(600 if sys.argv[1] == "stuck" and i else 0.02)
        return i

loader = DataLoader(Slow(), num_workers=2, persistent_workers=sys.argv[1] == "persistent")
batches = iter(loader)
next(batches)
print(*[p.pid for p in tw.utils.data.worker.multiprocessing.active_children()], flush=True)
if sys.argv[1] != "exit":
    for b in batches:
        if sys.argv[1] == "persistent":
            break
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["exit", "persistent", "interrupt", "kill", "stuck"])
def test_no_worker_outlives_its_program(how):
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        pids = [int(p) for p in program.stdout.readline().split()]
        assert len(pids) == 2
        if how in ("interrupt", "kill", "stuck"):
            program.send_signal(signal.SIGINT if how == "interrupt" else signal.SIGKILL)
        error = program.communicate(timeout=60)[1]
    finally:
        program.kill()
    if how == "interrupt":
        assert error.count("KeyboardInterrupt") == error.count("Traceback") == 1, error  # of the program alone
    elif how in ("exit", "persistent"):
        assert program.returncode == 0 and error == "", error
    for _ in range(200):
        if not any(map(alive, pids)):
            return
        time.sleep(0.1)
    assert not any(map(alive, pids))


def test_threads_are_there_when_asked_for():
    class Where(Noisy):
        def __getitem__(self, i):
            return os.getpid()

    pids = [b.item() for b in DataLoader(Where(), num_workers=2, multiprocessing_context="thread")]
    assert set(pids) == {os.getpid()}
    others = {b.item() for b in DataLoader(Where(), num_workers=2)}
    assert len(others) == 2 and os.getpid() not in others


def test_workers_know_themselves():
    class Told(Noisy):
        def __getitem__(self, i):
            info = get_worker_info()
            assert type(info.dataset) is Told
            return info.id, info.num_workers, i

    got = [[int(x) for x in b] for b in DataLoader(Told(4), num_workers=2)]
    assert got == [[0, 2, 0], [1, 2, 1], [0, 2, 2], [1, 2, 3]]


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"num_workers": -1}, "num_workers"),
        ({"timeout": 3}, "timeout needs workers"),
        ({"prefetch_factor": 3}, "prefetch_factor needs workers"),
        ({"persistent_workers": True}, "persistent_workers needs workers"),
        ({"num_workers": 1, "prefetch_factor": 0}, "at least 1"),
        ({"num_workers": 1, "multiprocessing_context": "forks"}, "one of .*'thread'"),
        ({"shuffle": True, "sampler": [0]}, "both say the order"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "by itself"),
        ({"batch_size": None, "drop_last": True}, "no last one"),
        ({"batch_size": 0}, "at least 1"),
    ],
)
def test_settings_that_make_no_sense(settings, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(Noisy(), **settings)


def test_more_settings():
    assert [b.tolist() for b in DataLoader(range(3), batch_size=None, collate_fn=tw.tensor)] == [0, 1, 2]
    assert list(DataLoader("abc", batch_size=None)) == ["a", "b", "c"]
    assert [b.tolist() for b in DataLoader(range(6), batch_sampler=[[5, 0], [2]])] == [[5, 0], [2]]
    loader = DataLoader(range(6), 2, False, None, None, 0, None, True, True)
    assert len(loader) == 3 and loader.pin_memory and loader.drop_last
    with pytest.raises(ValueError, match="make another"):
        loader.batch_size = 4
    with pytest.raises(ValueError, match="no state of a DataLoader"):
        loader.load_state_dict({"epoch": 1})
    with pytest.raises(ValueError, match="in_order=False"):
        DataLoader(range(6), num_workers=1, in_order=False).state_dict()
    with pytest.raises(ValueError, match="cannot be shuffled"):
        DataLoader(Stream(), shuffle=True)
    with pytest.raises(ValueError, match="read by 2 workers"):
        two = DataLoader(Stream(), num_workers=2)
        list(zip(range(1), two))
        DataLoader(Stream(), num_workers=1).load_state_dict(two.state_dict())
    assert sorted(b.item() for b in DataLoader(range(9), num_workers=2, in_order=False)) == list(range(9))

    class Many(Noisy):
        def __getitems__(self, indices):
            return [10 * i for i in indices]

    assert [b.tolist() for b in DataLoader(Many(4), batch_size=2)] == [[0, 10], [20, 30]]
    assert [b.tolist() for b in DataLoader(tw.utils.data.Subset(Many(4), [3, 1]), batch_size=2)] == [[30, 10]]

"""What must not bring the interpreter down: signals, forks, threads, hostile objects."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import talweg as tw


# A job in the background ignores Ctrl-C, and so would its children.
SIGINT_AS_USUAL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def run(program, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", SIGINT_AS_USUAL + textwrap.dedent(program)], capture_output=True, text=True, timeout=60, **kwargs
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_can_compute():
    done = run("""
        import os, talweg as tw
        x = (tw.randn(300, 300) @ tw.randn(300, 300)).sum().item()
        child = os.fork()
        if child == 0:
            y = (tw.ones(200, 200) @ tw.ones(200, 200)).sum().item()
            os._exit(0 if y == 200.0 ** 3 else 1)
        _, status = os.waitpid(child, 0)
        print(status)
    """)
    assert done.stdout.strip() == "0", done


def test_ctrl_c_ends_a_loop():
    done = run("""
        import os, signal, threading, talweg as tw
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            x = tw.randn(200, 200)
            while True:
                x = (x @ x).tanh()
                x.eval()
        except KeyboardInterrupt:
            print("stopped", tw.ones(2).sum().item())
    """)
    assert done.stdout.strip() == "stopped 2.0", done


def test_hostile_objects():
    class Liar:
        def __array__(self, *a, **k):
            raise RuntimeError("no")

        __array_interface__ = {"broken": True}

    class Fake:
        def __dlpack__(self, **kwargs):
            return object()

        def __dlpack_device__(self):
            return (1, 0)

    for f in [tw.tensor, tw.from_dlpack]:
        with pytest.raises((RuntimeError, TypeError, AttributeError)):
            f(Liar())
        with pytest.raises(TypeError):
            f(Fake())
    capsule = tw.zeros(2).__dlpack__()

    class Once:
        def __dlpack__(self, **kwargs):
            return capsule

    tw.from_dlpack(Once())
    with pytest.raises(TypeError):
        tw.from_dlpack(Once())
    released = memoryview(bytearray(8))
    released.release()
    with pytest.raises((ValueError, BufferError)):
        tw.tensor(released)


def test_huge_and_odd_sizes():
    for bad in [lambda: tw.zeros(2**62, 2**62), lambda: tw.zeros(-1), lambda: tw.arange(0, 10, 0).tolist()]:
        with pytest.raises((ValueError, tw.Error)):
            bad()
    assert tw.zeros(0).sum().item() == 0
    with pytest.raises((ValueError, tw.Error)):
        tw.zeros(0).max().item()
    with pytest.raises((TypeError, ValueError, OverflowError)):
        tw.zeros(10**30)


def test_a_long_chain_is_freed_without_recursion():
    x = tw.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    del y
    gc.collect()


def test_one_jitted_function_in_many_threads():
    w = tw.tensor([2.0], requires_grad=True)
    f = tw.jit(lambda x: (x * w).tanh().sum())
    out, errors = [], []

    def work(n):
        try:
            for i in range(30):
                out.append(f(tw.full((n + i % 3 + 1,), 0.5)).item())
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not errors and len(out) == 120


def test_a_recursive_jitted_function_is_inlined():
    @tw.jit
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * x

    assert power(tw.tensor(2.0), 3).item() == 16.0


def test_signals_are_pythons_own():
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        tw.ones(3).sum().item()
        assert seen == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_view_keeps_memory_that_a_change_does_not_touch():
    t = tw.ones(4)
    view = np.asarray(t)
    t += 1
    t.eval()
    del t
    gc.collect()
    assert view.tolist() == [1, 1, 1, 1]


def test_ctrl_c_ends_a_single_long_run():
    done = run("""
        import os, signal, threading, time, talweg as tw
        start = time.monotonic()
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            tw.while_loop(lambda i: i >= 0, lambda i: i + 1 - 1, tw.tensor(1)).item()
        except KeyboardInterrupt:
            print("stopped", tw.ones(2).sum().item())
    """)
    assert done.stdout.strip() == "stopped 2.0", done


@pytest.mark.parametrize("seed", [1, 2])
def test_anything_can_be_called_with_anything(seed, tmp_path):
    log = tmp_path / "call.txt"
    program = os.path.join(os.path.dirname(__file__), "fuzz.py")
    done = subprocess.run([sys.executable, program, str(seed), "5", str(log)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr[-2000:]}\n{log.read_text()}"


def test_memory_of_arrays_is_shared_where_layouts_allow():
    a = np.arange(6, dtype="float32").reshape(2, 3)
    for t in [tw.from_numpy(a), tw.from_dlpack(a), tw.asarray(a, copy=False)]:
        assert t.numpy().ctypes.data == a.ctypes.data and t.tolist() == a.tolist()
        assert (t * 2).sum().item() == 30
    # Memory that is lent is never written to: a step that could update in place does not.
    w = tw.Variable(tw.from_numpy(a))
    step = tw.jit(lambda: w.assign(w + 1))
    step(), step()
    assert w.tolist() == (np.arange(6).reshape(2, 3) + 2).tolist() and a.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    # Copied: other layouts, integers (places in memory must not change once they are checked), and on demand.
    for b in [a.T, a[:, ::2], np.arange(3), a.astype(">f4")]:
        assert tw.from_numpy(b).tolist() == b.tolist()
        with pytest.raises((ValueError, BufferError, TypeError)):
            tw.asarray(b, copy=False)
    assert tw.from_dlpack(a, copy=True).numpy().ctypes.data != a.ctypes.data
    with pytest.raises(BufferError):
        tw.from_dlpack(np.arange(3), copy=False)
    assert tw.tensor(a).numpy().ctypes.data != a.ctypes.data


def test_shared_memory_outlives_its_array():
    t = tw.from_numpy(np.full(1000, 7.0, dtype="float32"))
    u = tw.from_dlpack(np.full(1000, 8.0, dtype="float32"))
    gc.collect()
    np.full(1000, 9.0, dtype="float32")
    assert t.sum().item() == 7000 and u.sum().item() == 8000
    done = threading.Thread(target=lambda: (t + u).sum().item())
    done.start(), done.join()
    del t, u
    gc.collect()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for a page that must not be read")
def test_nothing_is_read_behind_the_end_of_shared_memory():
    done = run("""
        import ctypes, mmap, numpy as np, talweg as tw
        page = mmap.PAGESIZE
        memory = mmap.mmap(-1, 2 * page)
        whole = np.frombuffer(memory, dtype="uint8")
        libc = ctypes.CDLL(None)
        assert libc.mprotect(ctypes.c_void_p(whole.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
        for n in [1, 3, 7, 17, 100]:
            a = whole[page - 4 * n : page].view("float32")
            a[:] = 1.0
            x = tw.from_numpy(a)
            assert x.numpy().ctypes.data == a.ctypes.data
            y = [(x * 2 + 1).tanh().sum(), x.exp().mean(), x.softmax(-1).sum(), x.cumsum(0)[-1], x.sort()[0].sum()]
            y += [x.reshape(1, n) @ x.reshape(n, 1), x.reshape(n, 1) @ x.reshape(1, n), x.argmax(), x.double().sum()]
            y += [x.reshape(1, 1, n).avg_pool1d(1), tw.nn.Conv1d(1, 3, 1)(x.reshape(1, 1, n)), x.flip(0), x.half()]
            for t in y:
                t.eval()
        print("read")
    """)
    assert done.stdout.strip() == "read", done


def test_too_little_memory_is_an_exception():
    done = run("""
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        import talweg as tw
        for bad in [lambda: tw.ones(2**40).numpy(), lambda: (tw.ones(2**20, 1) @ tw.ones(1, 2**20)).eval()]:
            try:
                bad()
            except MemoryError as e:
                print("MemoryError" if "bytes were asked for" in str(e) else e)
        print(tw.ones(3).sum().item())
    """)
    assert done.stdout.split() == ["MemoryError", "MemoryError", "3.0"], done


def test_bad_programs_leave_the_interpreter_alone():
    x = tw.placeholder("float32", [2])
    for bad in [
        lambda: tw.zeros(2, 3) @ tw.zeros(2, 3),
        lambda: tw.zeros(2)[5],
        lambda: tw.zeros(2)[tw.tensor([7])].eval(),
        lambda: tw.zeros(3).reshape(7),
        lambda: tw.grad(lambda x: x)(tw.zeros(3)),
        lambda: tw.jit(lambda x: 1 / 0)(tw.zeros(1)),
        lambda: tw.vmap(lambda x: x)(3),
        lambda: bool(x),
        lambda: tw.Session().run(x.sum(), {x: object()}),
        lambda: tw.nn.Linear(2, 2)("word"),
        lambda: tw.load("/no/such/file"),
        lambda: tw.tensor([[1, 2], [3]]),
        lambda: tw.einsum("ij,jk", tw.zeros(2, 2)).eval(),
    ]:
        with pytest.raises(Exception) as raised:
            bad()
        assert isinstance(raised.value, Exception) and not isinstance(raised.value, tw.InternalError), raised.value


def test_sizes_that_make_no_sense_are_refused():
    nn = tw.nn
    for bad in [
        lambda: tw.zeros(-1),
        lambda: tw.eye(-1),
        lambda: tw.linspace(0, 1, -3),
        lambda: tw.randperm(-1),
        lambda: tw.ones(4).chunk(-1),
        lambda: nn.Linear(-1, 2),
        lambda: nn.Conv2d(1, -1, 3),
        lambda: nn.Embedding(2**80, 2),
        lambda: nn.LSTM(-1, 2),
    ]:
        with pytest.raises(tw.Error) as e:
            bad()
        assert isinstance(e.value, ValueError) and "test_robust.py" in str(e.value)


INTERRUPTED = """
import asyncio, os, signal, threading, time, talweg as tw

def interrupt(after):
    threading.Timer(after, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

def forever():
    return tw.while_loop(lambda i: i >= 0, lambda i: i + 1 - 1, tw.tensor(1)).item()

def long(trips=20_000):
    return tw.while_loop(lambda i: i < trips, lambda i: i + 1, tw.tensor(0)).item()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(
    "program",
    [
        # A notebook installs the default handler before each cell.
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt(0.5)
        try:
            forever()
        except KeyboardInterrupt:
            print("stopped", tw.ones(2).sum().item())
        """,
        """
        class Own(Exception):
            pass
        def handle(number, frame):
            raise Own
        signal.signal(signal.SIGINT, handle)
        for _ in range(2):
            interrupt(0.5)
            try:
                forever()
            except Own:
                done = tw.ones(2).sum().item()
        print("stopped", done)
        """,
        # A handler that does not raise is run, and the computation goes on.
        """
        seen = []
        def handle(number, frame):
            seen.append(tw.ones(2).sum().item())
            if len(seen) == 2:
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, handle)
        interrupt(0.3), interrupt(1.0)
        start = time.monotonic()
        try:
            forever()
        except KeyboardInterrupt:
            assert seen == [2.0, 2.0] and time.monotonic() - start > 0.9
            print("stopped", seen[0])
        """,
        # A step holds its variables; a handler may read them.
        """
        w = tw.Variable(tw.tensor(1.0))
        seen = []
        def handle(number, frame):
            seen.append(w.item())
            if len(seen) == 2:
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, handle)
        @tw.jit
        def step(n):
            i = tw.while_loop(lambda i: i < n, lambda i: i + 1, tw.tensor(0))
            w.assign(w + 1.0)
            return i
        steps = 0
        interrupt(0.3)
        while not seen:
            assert step(tw.tensor(30_000)).item() == 30_000
            steps += 1
        assert w.item() == 1.0 + steps, "no step is lost or taken twice"
        interrupt(0.3)
        try:
            step(tw.tensor(2**60))
        except KeyboardInterrupt:
            print("stopped", w.item() + 1.0 - steps)
        """,
        # The first Ctrl-C cancels the task, which is noticed when it awaits; the second raises at once.
        """
        async def main():
            interrupt(0.3), interrupt(1.0)
            forever()
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("stopped", tw.ones(2).sum().item())
        """,
        """
        async def main():
            interrupt(0.1)
            long()
            await asyncio.sleep(30)
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("stopped", tw.ones(2).sum().item())
        """,
    ],
    ids=["default", "raising", "quiet", "variables", "asyncio", "cancelled"],
)
def test_ctrl_c_reaches_the_handler_that_is_installed(program):
    done = run(INTERRUPTED + textwrap.dedent(program))
    assert done.stdout.strip() == "stopped 2.0", done


def test_another_thread_computes_on_after_ctrl_c():
    done = run(INTERRUPTED + textwrap.dedent("""
        out = []
        thread = threading.Thread(target=lambda: out.append(long(60_000)))
        thread.start()
        interrupt(0.1)
        try:
            time.sleep(30)
        except KeyboardInterrupt:
            thread.join()
            print(out)
    """))
    assert done.stdout.strip() == "[60000]", done


def chain(ops, rows):
    def f(x):
        for _ in range(ops // 2):
            x = (x * 1.0001).sin()
        return x.sum()

    return tw.grad(f)(tw.ones(rows)).numpy()


def parts(count, rows):
    x = tw.ones(rows)
    return tw.cat([x * float(i) for i in range(count)]).sum().item()


def layers(count, rows):
    model = tw.nn.Sequential(*[tw.nn.Linear(4, 4) for _ in range(count)])
    optimizer = tw.optim.SGD(model.parameters(), lr=0.01)

    @tw.jit
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step(tw.ones(rows, 4)).item()


@pytest.mark.parametrize("program, size", [(chain, 4000), (parts, 1500), (layers, 200)])
def test_compile_time_grows_no_faster_than_the_program(program, size):
    def seconds(size):
        best = float("inf")
        for rows in (3, 4):  # another shape is compiled again
            start = time.process_time()
            program(size, rows)
            best = min(best, time.process_time() - start)
        return best

    # Eight times the size takes 8 times as long, and would take 64 if each part looked at all others.
    short, long = seconds(size), seconds(8 * size)
    assert long < 20 * short, f"{short:.3f} s for {size}, {long:.3f} s for {8 * size}"

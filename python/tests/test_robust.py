"""What must not bring the interpreter down: signals, forks, threads, hostile objects."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

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

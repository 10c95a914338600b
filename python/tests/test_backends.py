"""Controls of GPUs and threads: switches do what they say, and say what they cannot do."""

import pytest

import talweg as tw

gpu = pytest.mark.skipif(not tw.cuda.is_available(), reason="there is no GPU")
no_gpu = pytest.mark.skipif(tw.cuda.is_available(), reason="there is a GPU")


def test_precision_is_one_switch_under_two_names():
    assert not tw.backends.cuda.matmul.allow_tf32 and tw.get_float32_matmul_precision() == "highest"
    try:
        tw.set_float32_matmul_precision("high")
        assert tw.backends.cuda.matmul.allow_tf32
        tw.backends.cuda.matmul.allow_tf32 = False
        assert tw.get_float32_matmul_precision() == "highest"
        tw.backends.cuda.matmul.allow_tf32 = True
        assert tw.get_float32_matmul_precision() == "high"
    finally:
        tw.set_float32_matmul_precision("highest")
    with pytest.raises(tw.ArgumentError, match="'low' is none of highest, high, medium"):
        tw.set_float32_matmul_precision("low")


@pytest.mark.parametrize("name, default", [
    ("enabled", True), ("allow_tf32", True), ("benchmark", True), ("deterministic", False),
])
def test_switches_of_cudnn(name, default):
    cudnn = tw.backends.cudnn
    assert getattr(cudnn, name) is default
    try:
        setattr(cudnn, name, not default)
        assert getattr(cudnn, name) is not default
    finally:
        setattr(cudnn, name, default)
    with pytest.raises(tw.DTypeError, match=f"{name}: expected True or False"):
        setattr(cudnn, name, 1)
    with cudnn.flags(enabled=True, benchmark=False):
        assert not cudnn.benchmark
    assert cudnn.benchmark


def test_deterministic_algorithms():
    tw.use_deterministic_algorithms(True)
    try:
        assert tw.are_deterministic_algorithms_enabled() and tw.backends.cudnn.deterministic
    finally:
        tw.use_deterministic_algorithms(False)
    assert not tw.are_deterministic_algorithms_enabled()


def test_unknown_switches_are_refused():
    with pytest.raises(AttributeError, match="fast_math"):
        tw.backends.cuda.matmul.fast_math = True
    with pytest.raises(AttributeError, match="no attribute"):
        tw.backends.cudnn.fast_math  # noqa: B018


def test_threads_change_no_result():
    before = tw.get_num_threads()
    x = tw.randn(300, 300)
    results = []
    try:
        for count in (1, 2):
            tw.set_num_threads(count)
            assert tw.get_num_threads() == count
            results.append(((x @ x).sum().item(), x.exp().sum().item()))
    finally:
        tw.set_num_threads(before)
    assert results[0] == results[1]
    with pytest.raises(tw.ArgumentError, match="positive"):
        tw.set_num_threads(0)


def test_what_there_is_not():
    assert not tw.backends.mps.is_available() and not tw.backends.mkldnn.is_available()
    assert tw.version.__version__ == tw.__version__
    with pytest.raises(tw.ArgumentError, match="one stream"):
        tw.cuda.Stream()
    with tw.cuda.stream(None):
        pass


@no_gpu
def test_without_a_gpu_asking_for_one_says_so():
    assert tw.cuda.device_count() == 0 and tw.cuda.current_device() == 0
    tw.cuda.empty_cache()
    for ask in (tw.cuda.memory_allocated, tw.cuda.synchronize, tw.cuda.get_device_name, tw.cuda.mem_get_info):
        with pytest.raises(tw.DeviceError, match="there is no cuda:0: this machine has 0 GPUs"):
            ask()
    with pytest.raises(tw.DeviceError):
        tw.cuda.set_device(1)
    with pytest.raises(tw.ArgumentError, match="expected a GPU"):
        tw.cuda.synchronize("cpu")


@gpu
def test_memory_of_a_gpu_is_counted():
    before = tw.cuda.memory_allocated()
    x = tw.ones(1 << 20, device="cuda:0").eval()
    assert tw.cuda.memory_allocated() - before >= 4 << 20
    assert tw.cuda.max_memory_allocated() >= tw.cuda.memory_allocated() and tw.cuda.memory_reserved() > 0
    del x
    tw.cuda.empty_cache()
    tw.cuda.reset_peak_memory_stats()
    assert tw.cuda.max_memory_allocated() == tw.cuda.memory_allocated()
    free, total = tw.cuda.mem_get_info()
    assert 0 < free <= total == tw.cuda.get_device_properties().total_memory
    assert tw.cuda.get_device_name() and tw.cuda.get_device_capability()[0] >= 5
    tw.cuda.synchronize()


@gpu
def test_tf32_changes_products_of_a_gpu():
    a = tw.randn(256, 256).to_device("cuda:0")
    step = tw.jit(lambda a: a @ a)
    full = step(a).numpy()
    try:
        tw.set_float32_matmul_precision("high")
        fast = step(a).numpy()
    finally:
        tw.set_float32_matmul_precision("highest")
    again = step(a).numpy()
    assert (full == again).all() and (full != fast).any() and abs(full - fast).max() < 0.5


@gpu
def test_deterministic_gradients_of_attention():
    q = tw.randn(2, 4, 128, 64).to_device("cuda:0").to("bfloat16")

    def loss(q):
        return (tw.nn.functional.scaled_dot_product_attention(q, q, q).float() ** 2).sum()

    tw.use_deterministic_algorithms(True)
    try:
        step = tw.jit(tw.grad(loss))
        runs = [step(q).float().numpy() for _ in range(4)]
    finally:
        tw.use_deterministic_algorithms(False)
    assert all((r == runs[0]).all() for r in runs)

#!/usr/bin/env python3
"""Times every kind of operator, beside PyTorch where it is installed, and reports what has become slower.

    python scripts/bench_ops.py                          # all of the table, two threads
    python scripts/bench_ops.py --only sort,fft          # names or groups
    python scripts/bench_ops.py --dtype bf16 --layout strided
    python scripts/bench_ops.py --save target/ops.json   # keeps the results of this device
    python scripts/bench_ops.py --against target/ops.json
    python scripts/bench_ops.py --busy                   # processor time of one thread: for a machine that others use

Both libraries run in turns within one process, in short rounds, and the least time of each counts: a busy machine slows
both. A ratio is PyTorch's time over Talweg's, so above 1 Talweg is faster. PyTorch runs eagerly, Talweg under `jit`.

`--against` compares with stored results of the same device: ratios where both have them, times otherwise. The exit status
is 1 if a result is worse by more than `--slack`, or if an operator of the table was refused.

A new operator gets a line in `CASES`: its group, its name, the expression, and what its inputs are.
"""

import argparse
import json
import math
import os
import platform
import sys
import time
from pathlib import Path

DTYPES = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "f16": "float16", "i32": "int32"}

# group, name, expression over `t` (the library), `F` and the inputs x, y, z, w (numbers), k (indices), m (a mask); inputs.
# An input is a letter and its shape; N is the size that `--scale` sets, in elements, R rows of 1,000 of them.
# Groups ending in "!" have no gradient here; those ending in "~" are for floats alone.
CASES = """
unary~ | exp | x.exp() | x N
unary~ | log | x.abs().log() | x N
unary~ | tanh | x.tanh() | x N
unary~ | sin | x.sin() | x N
unary~ | atan | x.atan() | x N
unary~ | sqrt | x.abs().sqrt() | x N
unary~ | erf | x.erf() | x N
unary~ | log1p | (x * x).log1p() | x N
unary~ | lgamma | (x.abs() + 1).lgamma() | x N
unary | abs | x.abs() | x N
unary! | floor | (x / 2).floor() | x N
activation~ | gelu | F.gelu(x) | x N
activation~ | silu | F.silu(x) | x N
activation~ | softplus | F.softplus(x) | x N
activation~ | leaky_relu | F.leaky_relu(x) | x N
binary | add | x + y | x N; y N
binary | mul_row | x * y | x R,1000; y 1000
binary | mul_column | x * y | x R,1000; y R,1
binary | maximum | t.maximum(x, y) | x N; y N
binary~ | atan2 | t.atan2(x, y) | x N; y N
binary~ | hypot | t.hypot(x, y) | x N; y N
binary | where | t.where(m, x, y) | m N; x N; y N
binary | clamp | x.clamp(-1, 1) | x N
reduce | sum | x.sum() | x R,1000
reduce | sum_rows | x.sum(-1) | x R,1000
reduce | sum_columns | x.sum(0) | x R,1000
reduce! | amax_columns | x.amax(0) | x R,1000
reduce! | argmax_rows | x.argmax(-1) | x R,1000
reduce! | argmax_columns | x.argmax(0) | x R,1000
reduce~ | var_rows | x.var(-1) | x R,1000
reduce~ | logsumexp | x.logsumexp(-1) | x R,1000
reduce~ | softmax | F.softmax(x, -1) | x R,1000
reduce~ | prod_rows | x.prod(-1) | x R,10
scan | cumsum_rows | x.cumsum(-1) | x R,1000
scan | cumsum_columns | x.cumsum(0) | x R,1000
scan! | cummax | x.cummax(-1)[0] | x R,1000
scan~ | cumprod | (x * 0.01 + 1).cumprod(-1) | x R,100
order! | sort_rows | t.sort(x, -1)[0] | x R,1000
order! | sort_long | t.sort(x)[0] | x N
order! | argsort | t.argsort(x, -1) | x R,1000
order! | topk | x.topk(20)[0] | x R,1000
order! | kthvalue | x.kthvalue(7)[0] | x R,1000
order! | median | x.median(-1)[0] | x R,1000
order! | searchsorted | t.searchsorted(t.sort(y)[0], x) | x N; y 5000
index | take_rows | x[k] | k R; x R,1000
index | take_columns | x.index_select(1, k) | k 500; x R,1000
index | gather | x.gather(1, k) | k R,300; x R,1000
index | scatter_add | x.scatter_add(1, k, y) | k R,300; x R,1000; y R,300
index | index_add | x.index_add(0, k, y) | k R; x R,1000; y R,1000
index | embedding | F.embedding(k, x) | k N/100; x R,100
move | roll | t.roll(x, 3, 0) | x R,1000
move | flip | t.flip(x, (0,)) | x R,1000
move | tril | t.tril(x) | x R,1000
move | concat | t.cat([x, y], 1) | x R,1000; y R,1000
move | stack | t.stack([x, y], 0) | x R,1000; y R,1000
move | repeat | x.repeat(1, 3) | x R,300
move | interleave | t.repeat_interleave(x, 3, 0) | x R,300
move | transpose | x.transpose(0, 1).contiguous() + 0 | x R,1000
move | stride | x[::2, 1::3] * 1 | x R,1000
move | pad | F.pad(x, (1, 1, 1, 1)) | x 8,R/8,1000
product~ | matmul | x @ y | x R,1000; y 1000,500
product~ | matmul_odd | x @ y | x 123,77; y 77,211
product~ | matvec | x @ y | x R,1000; y 1000
product~ | bmm | x @ y | x R/8,33,65; y R/8,65,47
product~ | linear | F.linear(x, y, z) | x R,300; y 500,300; z 500
image~ | conv3 | F.conv2d(x, y, padding=1) | x 2,32,40,40; y 32,32,3,3
image~ | conv_odd | F.conv2d(x, y, stride=2, padding=1) | x 3,7,37,41; y 13,7,3,3
image~ | conv_depthwise | F.conv2d(x, y, padding=1, groups=48) | x 2,48,40,40; y 48,1,3,3
image~ | max_pool | F.max_pool2d(x, 3, 2, 1) | x 4,32,40,40
image~ | avg_pool | F.avg_pool2d(x, 2) | x 4,32,40,40
image~ | adaptive | F.adaptive_avg_pool2d(x, 1) | x 4,128,14,14
image~ | nearest | F.interpolate(x, scale_factor=2, mode='nearest') | x 2,16,40,40
image~ | bilinear | F.interpolate(x, scale_factor=2, mode='bilinear') | x 2,16,40,40
image~ | pixel_shuffle | F.pixel_shuffle(x, 2) | x 2,32,40,40
norm~ | layer_norm | F.layer_norm(x, (1000,)) | x R,1000
norm~ | group_norm | F.group_norm(x, 8) | x 4,64,30,30
norm~ | batch_norm | F.batch_norm(x, None, None, y, z, True) | x 4,64,30,30; y 64; z 64
loss~ | cross_entropy | F.cross_entropy(x, k) | k R; x R,1000
loss~ | mse | F.mse_loss(x, y) | x N; y N
loss~ | smooth_l1 | F.smooth_l1_loss(x, y) | x N; y N
linalg~ | cholesky | t.linalg.cholesky(x @ x.transpose(-1, -2) + 300 * t.eye(150)) | x 3,150,150
linalg~ | solve | t.linalg.solve(x + 30 * t.eye(150), y) | x 3,150,150; y 3,150,9
linalg~ | inv | t.linalg.inv(x + 30 * t.eye(150)) | x 3,150,150
linalg~ | det | t.linalg.det(x) | x 40,20,20
linalg~! | qr | t.linalg.qr(x)[1] | x 2,200,120
linalg~! | eigh | t.linalg.eigh(x + x.transpose(-1, -2))[0] | x 150,150
linalg~! | svd | t.linalg.svd(x)[1] | x 120,90
linalg~! | lstsq | t.linalg.lstsq(x, y)[0] | x 300,80; y 300,5
fft~ | fft | t.fft.fft(x).abs() | x R,1000
fft~ | rfft | t.fft.rfft(x).abs() | x R,1024
fft~! | fft_prime | t.fft.fft(x).abs() | x R/4,1009
fft~ | fft2 | t.fft.fft2(x).abs() | x 4,120,160
"""
# PyTorch has no half types there.
NO_HALF = {"linalg", "fft"}


def parse(text, scale):
    """The rows of the table: group, whether it has a gradient, name, expression and inputs."""
    count = max(1000, int(2**20 * scale))
    names = {"N": count, "R": max(8, count // 1000)}
    for line in filter(None, map(str.strip, text.splitlines())):
        group, name, body, inputs = (part.strip() for part in line.split("|"))
        sized = []
        for item in inputs.split(";"):
            letter, dims = item.split()
            sized.append((letter, tuple(max(1, int(eval(d, {}, names))) for d in dims.split(","))))  # noqa: S307
        yield group.rstrip("!~"), "!" not in group, "~" in group, name, body, sized


def index_limit(name, shapes):
    """What indices of a case point into."""
    rows, columns = shapes["x"][0], shapes["x"][-1]
    return columns if name in ("take_columns", "gather", "scatter_add", "cross_entropy") else rows


def inputs_of(library, spec, name, dtype, is_strided):
    """Tensors of the library's own, the same numbers in both."""
    import random

    shapes = dict(spec)
    made = {}
    for letter, shape in spec:
        seed = random.Random(f"{name} {letter}").randrange(2**31)
        library.manual_seed(seed)
        if letter == "k":
            made[letter] = library.randint(0, index_limit(name, shapes), shape)
        elif letter == "m":
            made[letter] = library.rand(*shape) > 0.5
        else:
            # A view whose last two dimensions lie the other way round.
            back = shape[:-2] + shape[:-3:-1] if is_strided and len(shape) > 1 else shape
            x = library.randn(*back)
            x = (x * 50).to(library.int32) if dtype == "i32" else x.to(getattr(library, DTYPES[dtype]))
            made[letter] = x.transpose(-1, -2) if back is not shape else x
    return made


def call_of(library, functional, body, made, with_grad, is_torch):
    """A function without arguments that computes the case."""
    names = list(made)
    run = eval(f"lambda {', '.join(names)}: {body}", {"t": library, "F": functional})  # noqa: S307
    values = [made[n] for n in names]
    numbers = [i for i, n in enumerate(names) if n not in "km"]
    if not with_grad:
        if is_torch:
            def forward():
                with library.no_grad():
                    return run(*values)
            return forward
        jitted = library.jit(run)
        return lambda: jitted(*values)
    shape = tuple(run(*values).shape)
    library.manual_seed(1)
    back = library.randn(*shape) if shape else library.randn(1)[0]
    back = back.to(run(*values).dtype)
    if is_torch:
        leaves = [v.detach().requires_grad_() if i in numbers else v for i, v in enumerate(values)]
        wanted = [leaves[i] for i in numbers]
        return lambda: library.autograd.grad(run(*leaves), wanted, back)

    def loss(back, *given):
        given = iter(given)
        return (run(*[next(given) if i in numbers else v for i, v in enumerate(values)]) * back).sum()

    derived = library.grad(loss, argnums=tuple(range(1, len(numbers) + 1)))
    jitted = library.jit(lambda *a: derived(*a))
    return lambda: jitted(back, *[values[i] for i in numbers])


def wait(y):
    """Until the first result is computed."""
    while isinstance(y, (tuple, list)):
        y = y[0]
    return y.flatten()[:1].tolist()


def least_times(calls, seconds, clock):
    """The least time of each call: in turns, so that a busy machine slows all of them."""
    best = dict.fromkeys(calls, math.inf)
    repeats = {}
    for name, call in calls.items():
        wait(call())
        start = clock()
        wait(call())
        repeats[name] = max(1, min(20, int(0.004 / max(clock() - start, 1e-6))))
    end = clock() + seconds
    rounds = 0
    while rounds < 3 or (clock() < end and rounds < 200):
        rounds += 1
        for name, call in calls.items():
            start = clock()
            for _ in range(repeats[name]):
                y = call()
            wait(y)
            best[name] = min(best[name], (clock() - start) / repeats[name])
    return best


def measure(options):
    """One result for each case and direction."""
    os.environ.setdefault("TALWEG_THREADS", str(options.threads))
    clock = time.process_time if options.busy else time.perf_counter
    import talweg

    libraries = {"talweg": (talweg, talweg.nn.functional)}
    try:
        import torch

        torch.set_num_threads(options.threads)
        libraries["torch"] = (torch, torch.nn.functional)
    except ImportError:
        print("PyTorch is not installed: times alone", file=sys.stderr)
    only = set(filter(None, options.only.split(",")))
    for group, has_grad, is_float, name, body, spec in parse(CASES, options.scale):
        if only and not only & {group, name}:
            continue
        if (options.dtype == "i32" and is_float) or (options.dtype in ("bf16", "f16") and group in NO_HALF):
            continue
        for direction in ("forward", "gradient"):
            if direction == "gradient" and (not has_grad or options.dtype == "i32"):
                continue
            row = {"op": name, "group": group, "direction": direction, "dtype": options.dtype, "layout": options.layout}
            calls = {}
            for who, (library, functional) in libraries.items():
                try:
                    made = inputs_of(library, spec, name, options.dtype, options.layout == "strided")
                    calls[who] = call_of(library, functional, body, made, direction == "gradient", who == "torch")
                    wait(calls[who]())
                except Exception as error:  # noqa: BLE001 - what is refused is a result
                    calls.pop(who, None)
                    row[f"{who}_error"] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            if "talweg" in calls:
                row.update({f"{who}_ms": t * 1e3 for who, t in least_times(calls, options.seconds, clock).items()})
            if "torch_ms" in row and "talweg_ms" in row:
                row["ratio"] = row["torch_ms"] / row["talweg_ms"]
            yield row


def key(row):
    return row["op"], row["direction"], row["dtype"], row["layout"]


def regressions(rows, stored, slack):
    """Results that are worse than stored ones by more than `slack`."""
    before = {key(r): r for r in stored}
    for row in rows:
        old = before.get(key(row), {})
        if "ratio" in row and "ratio" in old:
            worse = old["ratio"] / row["ratio"]
        elif "talweg_ms" in row and "talweg_ms" in old:
            worse = row["talweg_ms"] / old["talweg_ms"]
        else:
            continue
        if worse > slack:
            yield worse, row


def report(rows):
    """The table, worst first, and a summary."""
    compared = sorted((r for r in rows if "ratio" in r), key=lambda r: r["ratio"])
    for r in compared:
        print(f"{r['ratio']:8.2f}  {r['op']:16} {r['direction']:9} torch {r['torch_ms']:9.3f} ms  talweg {r['talweg_ms']:9.3f} ms")
    for r in rows:
        if "ratio" not in r and "talweg_ms" in r:
            print(f"          {r['op']:16} {r['direction']:9} talweg {r['talweg_ms']:9.3f} ms")
    if compared:
        mean = math.exp(sum(math.log(r["ratio"]) for r in compared) / len(compared))
        low = sum(r["ratio"] < 0.9 for r in compared)
        print(f"{len(compared)} timings: {low} below 0.9, worst {compared[0]['ratio']:.2f}, geometric mean {mean:.2f}")
    refused = [r for r in rows if "talweg_error" in r and "torch_error" not in r]
    for r in refused:
        print(f"refused: {r['op']} {r['direction']}: {r['talweg_error']}")
    return len(refused)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names or groups, with commas")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--layout", choices=["contiguous", "strided"], default="contiguous")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the inputs; 1 is about a million elements")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each case")
    parser.add_argument("--save", type=Path, help="keep the results here")
    parser.add_argument("--against", type=Path, help="compare with results that were kept")
    parser.add_argument("--slack", type=float, default=1.5, help="how much worse a result may be")
    parser.add_argument("--busy", action="store_true", help="processor time of one thread instead of time")
    options = parser.parse_args()
    options.threads = 1 if options.busy else options.threads
    rows = list(measure(options))
    refused = report(rows)
    device = f"{platform.machine()} cpu, {options.threads} threads"
    if options.save:
        options.save.write_text(json.dumps({"device": device, "scale": options.scale, "rows": rows}, indent=1))
    failed = refused > 0
    if options.against:
        stored = json.loads(options.against.read_text())
        if stored["device"] != device or stored["scale"] != options.scale:
            sys.exit(f"{options.against} is of {stored['device']} at scale {stored['scale']}, not of {device}")
        for worse, row in sorted(regressions(rows, stored["rows"], options.slack), key=lambda r: -r[0]):
            failed = True
            print(f"slower by {worse:.2f}: {row['op']} {row['direction']}")
    sys.exit(failed)


if __name__ == "__main__":
    main()

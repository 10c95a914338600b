"""Times every common operator, beside PyTorch where it is installed, and reports what has become slower.

    talweg bench ops                                   # the table in f32 on two threads
    talweg bench ops --only sort,fft                   # names or groups
    talweg bench ops --dtype bfloat16 --layout strided --size odd
    talweg bench ops --sample 2                        # each op in two other types, layouts and sizes
    talweg bench ops --save                            # keeps the results of this device
    talweg bench ops --busy                            # processor time of one thread: for a machine that others use

Both libraries run in turns within one process, in short rounds, and the least time of each counts: a busy machine slows
both. A ratio is PyTorch's time over Talweg's, so above 1 Talweg is faster. PyTorch runs eagerly, Talweg under ``jit``.

Results are kept in a file for each device. Where it has results, ratios (or times, without PyTorch) are compared with
them. The exit status is 1 if one is worse by more than ``--slack``, or if an operator was refused that PyTorch runs.

A new operator gets a line in ``cases.py``.
"""

import argparse
import json
import math
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .cases import Case, cases, is_integer, made

Row = dict[str, Any]
DTYPES = ["float32", "float64", "bfloat16", "float16", "int32", "int64", "int16"]
EAGER = {"unique", "nonzero", "masked_select"}
# Which types, layouts and sizes --sample draws from.
VARIANTS = [
    ("bfloat16", "contiguous", "sweep"), ("float16", "contiguous", "sweep"), ("float64", "contiguous", "sweep"),
    ("int32", "contiguous", "sweep"), ("float32", "strided", "sweep"), ("float32", "contiguous", "odd"),
    ("float32", "contiguous", "tiny"), ("bfloat16", "strided", "odd"), ("float64", "strided", "odd"),
    ("int32", "strided", "odd"), ("float16", "contiguous", "tiny"), ("int64", "contiguous", "sweep"),
]  # fmt: skip


def call_of(library: Any, case: Case, values: dict[str, Any], env: dict[str, Any], with_grad: bool) -> Callable[[], Any]:
    """A function without arguments that computes the case."""
    is_torch = library.__name__ == "torch"
    names = list(values)
    run = eval(f"lambda {', '.join(names)}: {case.body}", env)  # noqa: S307
    given = list(values.values())
    if not with_grad:
        if is_torch:
            def forward() -> Any:
                with library.no_grad():
                    return run(*given)

            return forward
        # Sizes that depend on values cannot be traced.
        jitted = run if case.name in EAGER else library.jit(run)
        return lambda: jitted(*given)
    kinds = {x.name: x.kind for x in case.inputs}
    floats = [i for i, name in enumerate(names) if kinds[name] in ("", "+", "~")]
    y = run(*given)
    library.manual_seed(1)
    back = (library.randn(*y.shape) if len(y.shape) else library.randn(1)[0]).to(y.dtype).to(env["dev"])
    if is_torch:
        leaves = [v.detach().requires_grad_() if i in floats else v for i, v in enumerate(given)]
        wanted = [leaves[i] for i in floats]
        return lambda: library.autograd.grad(run(*leaves), wanted, back)

    def loss(back: Any, *leaves: Any) -> Any:
        rest = iter(leaves)
        return (run(*[next(rest) if i in floats else v for i, v in enumerate(given)]) * back).sum()

    derived = library.grad(loss, argnums=tuple(range(1, len(floats) + 1)))
    jitted = library.jit(lambda *a: derived(*a))
    picked = [back, *(given[i] for i in floats)]
    return lambda: jitted(*picked)


def wait(y: Any) -> None:
    """Until the first result is computed."""
    while isinstance(y, (tuple, list)):
        y = y[0]
    y.flatten()[:1].tolist()


# PyTorch's idle threads spin for some milliseconds before they sleep. Until then they take a processor from who is next.
SETTLE = 0.02
# Seconds that a turn of the fastest should take, and that one of the slowest may.
TURN, TURN_MAX = 0.003, 0.03
# Four rounds are made if they take no longer than this; one is always made.
ROUNDS_SECONDS = 10.0


def least_times(calls: dict[str, Callable[[], Any]], seconds: float, clock: Callable[[], float], settle: float) -> dict[str, float]:
    """The least time of each call: in turns, so that a busy machine slows all of them. Before each turn threads have
    `settle` seconds to fall asleep, and a call that does not count wakes those of its library."""
    best = dict.fromkeys(calls, math.inf)
    once = dict.fromkeys(calls, math.inf)
    for name, call in calls.items():
        wait(call())
        for _ in range(3):
            start = clock()
            wait(call())
            once[name] = min(once[name], max(clock() - start, 1e-6))
    # As many for all: caches that were lost while threads slept fill up again from call to call.
    repeats = max(1, min(200, int(TURN / min(once.values())), int(TURN_MAX / max(once.values()))))
    begin = clock()
    end = begin + seconds
    rounds = 0
    while (rounds < 4 and clock() < begin + ROUNDS_SECONDS) or (clock() < end and rounds < 200):
        rounds += 1
        for name, call in calls.items():
            if settle:
                time.sleep(settle)
                wait(call())
            start = clock()
            for _ in range(repeats):
                y = call()
            wait(y)
            best[name] = min(best[name], (clock() - start) / repeats)
    return best


def variants(case: Case, options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Types, layouts and sizes of a case."""
    if not options.sample:
        return [(options.dtype, options.layout, options.size)]
    draw = random.Random(f"{case.name} {options.seed}")
    return draw.sample([v for v in VARIANTS if not (is_integer(v[0]) and case.is_float)], options.sample)


def plan(options: argparse.Namespace) -> Iterator[tuple[Case, tuple[str, str, str], str]]:
    """What is measured: cases in the sizes of a variant, and directions."""
    only = set(filter(None, options.only.split(",")))
    sized = {how: {c.name: c for c in cases(options.scale, how)} for how in ("sweep", "odd", "tiny")}
    for name, case in sized["sweep"].items():
        if only and not only & {case.group, name}:
            continue
        for variant in variants(case, options):
            if is_integer(variant[0]) and case.is_float:
                continue
            for direction in ("forward", "gradient"):
                is_plain = direction == "forward" or (case.has_gradient and not is_integer(variant[0]))
                if is_plain and options.direction in ("both", direction):
                    yield sized[variant[2]][name], variant, direction


def row_of(case: Case, variant: tuple[str, str, str], direction: str) -> Row:
    dtype, layout, size = variant
    return {"op": case.name, "group": case.group, "direction": direction, "dtype": dtype, "layout": layout, "size": size}


def isolated(options: argparse.Namespace, args: Sequence[str]) -> Iterator[Row]:
    """The results of a process of its own. Where it dies in a case, such as by an instruction that the machine lacks,
    another one measures that case without PyTorch and goes on."""
    todo = list(plan(options))
    done, alone, death = 0, -1, ""
    while done < len(todo):
        command = [sys.executable, "-m", "talweg._bench_ops", *args, "--worker", f"{done},{alone}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                row = json.loads(line)
                if done == alone:
                    row["torch_error"] = f"the process ended by {death}"
                yield row
                done += 1
        if done == len(todo):
            return
        if worker.returncode >= 0:
            raise SystemExit(worker.returncode or 1)
        death = signal.Signals(-worker.returncode).name
        if done == alone:
            # Not PyTorch's doing.
            yield {**row_of(*todo[done]), "talweg_error": f"the process ended by {death}"}
            done += 1
        else:
            alone = done


def measure(options: argparse.Namespace, first: int = 0, alone: int = -1) -> Iterator[Row]:
    """One result for each case, variant and direction from the `first` on; that with the number `alone` without
    PyTorch."""
    os.environ.setdefault("TALWEG_THREADS", str(options.threads))
    import talweg

    libraries: dict[str, Any] = {"talweg": talweg}
    try:
        import torch

        torch.set_num_threads(options.threads)
        libraries["torch"] = torch
    except ImportError:
        print("PyTorch is not installed: times alone", file=sys.stderr)
    clock = time.process_time if options.busy else time.perf_counter
    settle = SETTLE if options.threads > 1 and options.device == "cpu" and len(libraries) > 1 else 0.0
    for number, (case, variant, direction) in enumerate(plan(options)):
        if number < first:
            continue
        row = row_of(case, variant, direction)
        dtype, layout, _ = variant
        calls = {}
        for who, library in libraries.items():
            if number == alone and who == "torch":
                continue
            env = {"t": library, "F": library.nn.functional, "dev": options.device}
            try:
                library.manual_seed(0)
                if case.group == "recurrent":
                    cell = getattr(library.nn, case.name.upper())(256, 256, batch_first=True)
                    env[case.name] = cell.to(options.device).to(getattr(library, dtype))
                values = made(library, case, dtype, layout == "strided", options.device)
                calls[who] = call_of(library, case, values, env, direction == "gradient")
                wait(calls[who]())
            except Exception as error:  # noqa: BLE001 - what is refused is a result
                calls.pop(who, None)
                row[f"{who}_error"] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        if "talweg" in calls:
            row.update({f"{who}_ms": t * 1e3 for who, t in least_times(calls, options.seconds, clock, settle).items()})
        if "torch_ms" in row and "talweg_ms" in row:
            row["ratio"] = row["torch_ms"] / row["talweg_ms"]
        yield row


def key(row: Row) -> tuple[str, ...]:
    return tuple(row[k] for k in ("op", "direction", "dtype", "layout", "size"))


def regressions(rows: list[Row], stored: list[Row], slack: float) -> Iterator[tuple[float, Row]]:
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


def described(row: Row) -> str:
    how = [row["dtype"], row["layout"], row["size"]]
    return f"{row['op']:20} {row['direction']:8} {' '.join(h for h in how if h not in ('float32', 'contiguous', 'sweep')):22}"


def report(rows: list[Row]) -> int:
    """Prints the table, worst first, and a summary; how many were refused."""
    compared = sorted((r for r in rows if "ratio" in r), key=lambda r: float(r["ratio"]))
    for r in compared:
        print(f"{r['ratio']:8.2f}  {described(r)} torch {r['torch_ms']:10.4f} ms  talweg {r['talweg_ms']:10.4f} ms")
    for r in rows:
        if "ratio" not in r and "talweg_ms" in r:
            print(f"          {described(r)} talweg {r['talweg_ms']:10.4f} ms")
    if compared:
        mean = math.exp(sum(math.log(r["ratio"]) for r in compared) / len(compared))
        low, lower = (sum(r["ratio"] < bar for r in compared) for bar in (0.9, 0.7))
        print(f"{len(compared)} timings: {lower} below 0.7, {low} below 0.9, worst {compared[0]['ratio']:.2f}, geometric mean {mean:.2f}")
    refused = [r for r in rows if "talweg_error" in r and "torch_error" not in r]
    for r in refused:
        print(f"refused: {described(r)}: {r['talweg_error']}")
    return len(refused)


def device_name(options: argparse.Namespace) -> str:
    """What results are kept under."""
    if options.device != "cpu":
        import talweg

        return f"{talweg.cuda.get_device_name(options.device)}"
    model = platform.processor() or platform.machine()
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        model = found[1] if found else model
    except OSError:
        pass
    return f"{model}, {options.threads} threads{', busy' if options.busy else ''}"


def results_file(options: argparse.Namespace, device: str) -> Path:
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{device} scale {options.scale:g}").strip("-").lower()
    return Path(options.results) / f"{name}.json"


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "talweg" / "bench-ops"
    parser = argparse.ArgumentParser(prog="talweg bench ops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names or groups, with commas")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--layout", choices=["contiguous", "strided"], default="contiguous")
    parser.add_argument("--size", choices=["sweep", "odd", "tiny"], default="sweep")
    parser.add_argument("--direction", choices=["both", "forward", "gradient"], default="both")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="each case in N drawn types, layouts and sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--scale", type=float, default=0.06, help="size of the inputs; 1 suits a GPU")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each case")
    parser.add_argument("--results", default=str(cache), help="folder with a file of results for each device")
    parser.add_argument("--save", action="store_true", help="keep these results there")
    parser.add_argument("--slack", type=float, default=1.5, help="how much worse a result may be")
    parser.add_argument("--progress", action="store_true", help="a JSON line for each result as it comes, on stderr")
    parser.add_argument("--busy", action="store_true", help="processor time of one thread instead of time")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    args = sys.argv[1:] if args is None else args
    options = parser.parse_args(args)
    options.threads = 1 if options.busy else options.threads
    if options.worker:
        first, alone = map(int, options.worker.split(","))
        # Results have the pipe to themselves: MKL writes its messages to standard output.
        with os.fdopen(os.dup(1), "w") as results:
            os.dup2(2, 1)
            for row in measure(options, first, alone):
                print(json.dumps(row), file=results, flush=True)
        return 0
    rows = []
    for row in isolated(options, args):
        rows.append(row)
        if options.progress:
            print(json.dumps(row), file=sys.stderr, flush=True)
    is_failed = report(rows) > 0
    device = device_name(options)
    file = results_file(options, device)
    stored: list[Row] = json.loads(file.read_text())["rows"] if file.exists() else []
    for worse, row in sorted(regressions(rows, stored, options.slack), key=lambda r: -r[0]):
        is_failed = True
        print(f"slower by {worse:.2f}: {described(row)}")
    if options.save:
        kept = {key(r): r for r in [*stored, *rows]}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"device": device, "scale": options.scale, "rows": list(kept.values())}, indent=1))
        print(f"kept in {file}")
    return int(is_failed)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Draws what a slow worker costs: loss over time under each consistency, four workers.

    cargo build --release -p talweg --bins --example stragglers
    python3 scripts/stragglers.py target/release docs/stragglers.svg

Every run is four real worker processes and one server under `talweg launch`. In the left picture
one worker at a time is four times slower, another in each step; in the right one it is always the
same worker. The script prints steps a second and the time to a target loss, and draws both
pictures. It needs nothing but Python.
"""
import os
import re
import subprocess
import sys

RULES = ["bsp", "ssp:3", "async", "backup:1"]
COLORS = {"bsp": "#c2453b", "ssp:3": "#3b78c2", "async": "#4a9a4a", "backup:1": "#b0802a"}
SLOW = {"turns": "another worker is slow in each step", "always": "the same worker is always slow"}
TARGET = 1.0
LIMIT_S = 120


def run(folder, rule, slow, steps):
    """Points (seconds, loss) of the first worker, and steps a second of all workers together."""
    command = [f"{folder}/talweg", "launch", "--workers", "4", "--servers", "1", "--consistency", rule,
               "--progress", "0", f"{folder}/examples/stragglers"]
    env = dict(os.environ, SLOW=slow, STEPS=str(steps), TALWEG_THREADS="1")
    said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    points = [(float(a), float(b)) for a, b in re.findall(r"^\[worker 0\] ([\d.]+) \d+ ([\d.]+)$", said, re.M)]
    ends = [(int(n), float(s)) for n, s in re.findall(r"did (\d+) steps in ([\d.]+) s", said)]
    if len(ends) != 4 or not points:
        sys.exit(f"{rule}, {slow}: the job did not say what was expected:\n{said}")
    return points, sum(n for n, _ in ends) / max(s for _, s in ends)


def reached(points):
    return next((t for t, loss in points if loss <= TARGET), None)


def panel(x0, title, runs):
    """One picture as SVG, 400 wide."""
    t1 = max(t for points, _ in runs.values() for t, _ in points)
    top = max(loss for points, _ in runs.values() for _, loss in points)
    at = lambda t, loss: (x0 + 40 + 340 * t / t1, 30 + 230 * (1 - loss / top))
    out = [f'<text x="{x0 + 210}" y="18" text-anchor="middle" font-weight="bold">{title}</text>',
           f'<path d="M{x0 + 40} 30V260H{x0 + 380}" fill="none" stroke="currentColor"/>',
           f'<text x="{x0 + 380}" y="276" text-anchor="end">{t1:.1f} s</text>',
           f'<text x="{x0 + 36}" y="36" text-anchor="end">{top:.1f}</text>',
           f'<text x="{x0 + 36}" y="262" text-anchor="end">0</text>']
    y = at(0, TARGET)[1]
    out.append(f'<path d="M{x0 + 40} {y:.1f}H{x0 + 380}" stroke="currentColor" stroke-dasharray="3 3" opacity=".5"/>')
    for i, (rule, (points, speed)) in enumerate(runs.items()):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(t, loss) for t, loss in points))
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[rule]}" stroke-width="1.6"/>')
        done = reached(points)
        when = f"{done:.2f} s" if done else "not reached"
        out.append(f'<text x="{x0 + 378}" y="{50 + 16 * i}" text-anchor="end" fill="{COLORS[rule]}">'
                   f"{rule}: {speed:.0f} steps/s, loss {TARGET:g} after {when}</text>")
    return out


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, target = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    body = []
    for i, (slow, title) in enumerate(SLOW.items()):
        runs = {rule: run(folder, rule, slow, steps) for rule in RULES}
        for rule, (points, speed) in runs.items():
            print(f"{slow:7} {rule:9} {speed:7.1f} steps/s  loss {TARGET:g} after {reached(points)} s")
        print(f"{slow:7} ssp:3 over bsp: {runs['ssp:3'][1] / runs['bsp'][1]:.2f}")
        body += panel(400 * i, title, runs)
    svg = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 285" font-family="sans-serif" font-size="11" '
           'style="background:#fff;color:#222">', *body, "</svg>\n"]
    with open(target, "w") as f:
        f.write("\n".join(svg))


main()

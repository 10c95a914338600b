#!/usr/bin/env python3
"""Takes the picture of the live page in docs/distributed.md: a job under ssp:3 in which a worker
and a server are killed, seen by a headless Chromium.

    cargo build --release -p talweg --bins --example digits
    python3 scripts/dashboard.py target/release docs/dashboard.png
"""
import os
import re
import signal
import subprocess
import sys
import time


def main():
    folder, picture = sys.argv[1:3]
    words = [f"{folder}/talweg", "launch", "--workers", "4", "--servers", "3", "--consistency", "ssp:3",
             "--dashboard", "0", "--progress", "0", f"{folder}/examples/digits"]
    env = dict(os.environ, STEPS="100000", PAUSE_MS="5", TALWEG_THREADS="1")
    job = subprocess.Popen(words, env=env, text=True, stdout=subprocess.PIPE)
    try:
        ids, url = {}, None
        for line in job.stdout:
            if found := re.search(r"(\w+ \d+) is process (\d+)", line):
                ids[found[1]] = int(found[2])
            if found := re.search(r"dashboard: (\S+)", line):
                url = found[1]
            if "epoch 1: every partition" in line:
                break
        for victim in ["worker 2", "server 1"]:
            time.sleep(4)
            os.kill(ids[victim], signal.SIGKILL)
        time.sleep(4)
        subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        "--window-size=1200,1150", "--virtual-time-budget=10000", f"--screenshot={picture}", url],
                       check=True, capture_output=True, timeout=120)
    finally:
        job.kill()
        job.wait()


main()

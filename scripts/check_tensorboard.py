"""Checks with TensorBoard itself that it opens the event files.

Setup, outside the repository:
    python3 -m venv venv && venv/bin/pip install tensorboard pillow setuptools
Then, from the repository's root, with the files of a training run:
    cargo quickstart --dir /tmp/run --epochs 2
    venv/bin/python scripts/check_tensorboard.py run /tmp/run
and with one of each kind of summary:
    TALWEG_EVENTS=/tmp/events cargo test -p talweg-data --test events
    venv/bin/python scripts/check_tensorboard.py kinds /tmp/events
"""

import collections
import io
import json
import math
import pathlib
import sys

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    return events


def kinds(folder):
    """Scalars, a histogram, a picture and a text, as `crates/data/tests/events.rs` writes them."""
    events = read(folder)
    scalars = events.Scalars("train/loss")
    assert [s.step for s in scalars] == list(range(300)), [s.step for s in scalars]
    assert all(abs(s.value - 1 / (s.step + 1)) < 1e-6 for s in scalars)

    histogram = events.Histograms("weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (-1, 2, 4, 1.5)
    assert sum(histogram.bucket) == 4 and len(histogram.bucket_limit) == 30

    image = events.Images("digit")[0]
    decoded = Image.open(io.BytesIO(image.encoded_image_string))
    decoded.load()
    assert (image.width, image.height, decoded.size, decoded.mode) == (28, 28, (28, 28), "L")
    assert max(decoded.tobytes()) > 100

    # "notes" is what was written; "notes/text_summary" what older versions add.
    text = events.Tensors("notes")[0].tensor_proto.string_val[0]
    assert text == b"learning rate **0.1**", text
    assert events.SummaryMetadata("notes").plugin_data.plugin_name == "text"
    print("TensorBoard reads every kind of summary")


def run(folder):
    """The curves of a run, which must be those of its log."""
    logged = collections.defaultdict(list)
    for line in (folder / "log.jsonl").read_text().splitlines():
        record = json.loads(line)
        step = record.pop("step")
        for name, value in record.items():
            if "/" in name:
                logged[name].append((step, value))
    events = read(folder / "events")
    assert sorted(events.Tags()["scalars"]) == sorted(logged), (events.Tags()["scalars"], sorted(logged))
    for name, points in logged.items():
        seen = [(s.step, s.value) for s in events.Scalars(name)]
        assert [s for s, _ in seen] == [s for s, _ in points], name
        assert all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(seen, points)), name
        print(f"{name}: {len(seen)} points, from {seen[0][1]:.4f} to {seen[-1][1]:.4f}")
    print("TensorBoard reads the run as it was logged")


if __name__ == "__main__":
    {"kinds": kinds, "run": run}[sys.argv[1]](pathlib.Path(sys.argv[2]))

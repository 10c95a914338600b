"""Checks with TensorBoard itself that it opens the event files.

Setup, outside the repository:
    python3 -m venv venv && venv/bin/pip install tensorboard pillow setuptools
Then, from the repository's root:
    TALWEG_EVENTS=/tmp/events cargo test -p talweg-data --test events
    venv/bin/python crates/data/tests/check_tensorboard.py /tmp/events
"""

import io
import sys

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main(folder):
    events = EventAccumulator(folder, size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    print(tags)

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
    print("TensorBoard reads everything back")


if __name__ == "__main__":
    main(sys.argv[1])

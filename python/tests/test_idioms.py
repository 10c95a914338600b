"""What people type after `import torch`: the same result as PyTorch's, or an error that says what to write instead.

The snippets are in `idioms/*.txt`, PyTorch's results in `idioms/expected.json`, the snippets that Talweg refuses in
`idioms/raised.json`. `scripts/idioms.py` writes both.
"""

import functools
import re

import beside
import pytest

PLACES = sorted({place for place, _ in beside.snippets()})
# Words with which a message says what to do.
ADVICE = re.compile(
    r"`|\b(use|write|call|give|pass|read|save|set|make|made of|instead|leave|start|needs?|expected|did you mean|is in|there (is|are)|install)\b", re.I
)


@functools.cache
def verdicts(place):
    """(text, verdict, result) of every snippet of a place."""
    want = beside.expected()
    texts = [text for at, text in beside.snippets() if at == place]
    missing = [text for text in texts if beside.key(text) not in want]
    assert not missing, f"{missing}: run scripts/idioms.py --bless, with PyTorch"
    results = [(text, want[beside.key(text)], beside.run(text, "talweg")) for text in texts]
    return [(text, beside.judge(w, got), w, got) for text, w, got in results]


@pytest.mark.parametrize("place", PLACES)
def test_no_idiom_silently_differs(place):
    wrong = [f"{text}\n  PyTorch {want}\n  Talweg {got}" for text, v, want, got in verdicts(place) if v == "differs"]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("place", PLACES)
def test_an_idiom_that_works_goes_on_working(place):
    known = beside.raised()
    new = [f"{text}\n  {type(got).__name__}: {got}" for text, v, _, got in verdicts(place) if v == "raises" and text not in known]
    assert not new, "\n\n".join(new)


# PyTorch refuses these and nothing is lost by computing them.
ACCEPTED = {
    "np.array([1.0, 2.0, 3.0]) * v",
    "np.max(x)",
    "np.mean(x)",
    "np.sum(x)",
    "round(torch.tensor([1.5]))",
    "w.numpy()",
}


@pytest.mark.parametrize("place", PLACES)
def test_what_pytorch_refuses_is_refused(place):
    accepted = [f"{text}\n  {got}" for text, v, _, got in verdicts(place) if v == "accepts" and text not in ACCEPTED]
    assert not accepted, "\n\n".join(accepted)


@pytest.mark.parametrize("place", PLACES)
def test_a_refusal_says_what_to_do(place):
    refused = [f"{text}\n  {type(got).__name__}: {got}" for text, v, _, got in verdicts(place) if v == "raises" and not ADVICE.search(str(got))]
    assert not refused, "\n\n".join(refused)


def test_nine_in_ten_idioms_are_the_same():
    found = [v for place in PLACES for _, v, _, _ in verdicts(place)]
    assert len(found) > 1600
    assert found.count("same") >= 0.9 * len(found)

"""Runs the idioms of python/tests/idioms in PyTorch and in Talweg and classifies each.

    PYTHONPATH=target/python python scripts/idioms.py            # a table, every idiom that raises or differs
    PYTHONPATH=target/python python scripts/idioms.py --bless    # also stores PyTorch's results and the refusals
    PYTHONPATH=target/python python scripts/idioms.py --stored   # without PyTorch, against the stored results
    PYTHONPATH=target/python python scripts/idioms.py --programs # stores PyTorch's losses of python/tests/scripts

An idiom is *same* (values, element types, shapes and kinds of containers agree), *raises* (Talweg
refuses it, with a message), *accepts* (PyTorch refuses it) or *differs*. Nothing may differ.
"""

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "python" / "tests"))
import beside  # noqa: E402


def main():
    if "--programs" in sys.argv:
        return programs()
    bless, stored = "--bless" in sys.argv, "--stored" in sys.argv
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    have = beside.expected() if stored else {}
    results, refused, counts = {}, {}, {}
    for place, text in beside.snippets():
        if only and place not in only:
            continue
        want = have.get(beside.key(text)) if stored else beside.run(text, "torch")
        if isinstance(want, Exception):
            want = ["raises", f"{type(want).__name__}: {want}".split("\n")[0][:120]]
        results[beside.key(text)] = want
        got = beside.run(text, "talweg")
        verdict = beside.judge(want, got)
        counts.setdefault(place, Counter())[verdict] += 1
        if verdict == "raises":
            refused[text] = f"{type(got).__name__}: {got}"
        if verdict != "same":
            shown = refused[text] if verdict == "raises" else f"PyTorch {want}\n    Talweg {got}"
            print(f"[{place}] {verdict}\n    " + text.replace("\n", "\n    ") + f"\n    {shown[:1500]}\n")
        elif isinstance(want, list) and want[:1] == ["raises"] and "--refusals" in sys.argv:
            print(f"[{place}] both raise\n    {text}\n    PyTorch {want[1]}\n    Talweg {type(got).__name__}: {got}\n")
    total = sum(counts.values(), Counter())
    for place, c in [*counts.items(), ("all", total)]:
        print(f"{place:12} {sum(c.values()):5} same {c['same']:5} raises {c['raises']:4} accepts {c['accepts']:3} differs {c['differs']:4}")
    if bless and not only:
        write({} if stored else results, refused)
    return 1 if total["differs"] else 0


def programs():
    """Stores the losses of the whole programs."""
    found = {name: beside.losses(path, "torch") for name, path in beside.programs().items()}
    lines = ",\n".join(f'"{name}": {json.dumps(values)}' for name, values in found.items())
    beside.LOSSES.write_text("{\n" + lines + "\n}\n")
    return 0


def write(results, refused):
    """Stores what PyTorch returns, a snippet a line, and what Talweg refuses."""
    if results:
        lines = ",\n".join(f'"{k}": {json.dumps(v, separators=(",", ":"))}' for k, v in sorted(results.items()))
        beside.EXPECTED.write_text("{\n" + lines + "\n}\n")
    beside.RAISED.write_text(json.dumps(refused, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""What compression did to a model: a table, JSON, and a page with plots."""

# mypy: ignore-errors
import html
import json
import math
from dataclasses import asdict, dataclass, field


@dataclass
class Layer:
    """One layer: its form before and after, its time, and how near it stayed."""

    name: str
    before: str
    after: str
    before_ms: float
    after_ms: float
    sqnr: float
    kept_because: str


def weight_bytes(model):
    """Bytes of parameters and buffers, scales included."""
    each = {id(t): t.numel() * t.dtype.itemsize for t in [*model.parameters(), *model.buffers()]}
    return sum(each.values())


@dataclass
class Report:
    """Size, speed and error of a model before and after."""

    method: str
    bytes_before: int
    bytes_after: int
    ms_before: float
    ms_after: float
    error_max: float
    sqnr: float
    figure_before: float | None = None
    figure_after: float | None = None
    layers: list[Layer] = field(default_factory=list)

    @property
    def gain(self):
        """How many times as fast the model is."""
        return self.ms_before / self.ms_after

    def json(self):
        """The report as JSON; an infinite ratio is null."""

        def plain(x):
            if isinstance(x, dict):
                return {k: plain(v) for k, v in x.items()}
            if isinstance(x, list):
                return [plain(v) for v in x]
            return None if isinstance(x, float) and not math.isfinite(x) else x

        return json.dumps(plain(asdict(self)), indent=1)

    def __str__(self):
        lines = [
            f"{self.method}: {self.bytes_before:,} → {self.bytes_after:,} bytes ({self.bytes_after / max(self.bytes_before, 1):.2f}), "
            f"{self.ms_before:.3f} → {self.ms_after:.3f} ms ({self.gain:.2f} times as fast), {self.sqnr:.1f} dB, largest error {self.error_max:.3g}"
        ]
        if self.figure_before is not None:
            lines.append(f"figure of merit: {self.figure_before:.6g} → {self.figure_after:.6g}")
        width = max([len(x.name) for x in self.layers] or [5])
        for x in sorted(self.layers, key=lambda x: x.sqnr):
            what = f"{x.after}, {x.before_ms / x.after_ms:.2f} times as fast, {x.sqnr:.1f} dB" if x.after != x.before else f"kept: {x.kept_because}"
            lines.append(f"{x.name:{width}}  {what}")
        return "\n".join(lines)

    def html(self):
        """A page that needs nothing else."""
        rows = "".join(
            f"<tr><td>{html.escape(x.name)}</td><td>{x.after}</td><td>{x.before_ms:.3f}</td><td>{x.after_ms:.3f}</td>"
            f"<td>{'' if math.isinf(x.sqnr) else f'{x.sqnr:.1f}'}</td><td>{html.escape(x.kept_because)}</td></tr>"
            for x in self.layers
        )
        figure = "" if self.figure_before is None else f"<p>Figure of merit: {self.figure_before:.6g} → {self.figure_after:.6g}</p>"
        return (
            "<!doctype html><meta charset=utf-8><title>Compression</title><style>body{font:14px sans-serif;margin:2em}"
            "td,th{padding:2px 10px;text-align:right}td:first-child{text-align:left}</style>"
            f"<h1>{html.escape(self.method)}</h1><p>{self.bytes_before:,} → {self.bytes_after:,} bytes, "
            f"{self.ms_before:.3f} → {self.ms_after:.3f} ms ({self.gain:.2f} times as fast), {self.sqnr:.1f} dB</p>{figure}"
            f"<h2>Time of each layer, ms</h2>{self._bars()}"
            "<table><tr><th>layer</th><th>form</th><th>before ms</th><th>after ms</th><th>SQNR dB</th><th>kept because</th></tr>"
            f"{rows}</table>"
        )

    def _bars(self):
        most = max([x.before_ms for x in self.layers] + [x.after_ms for x in self.layers] + [1e-9])
        parts = []
        for i, x in enumerate(self.layers):
            top = 24 * i
            for dy, ms, color in ((2, x.before_ms, "#bbb"), (11, x.after_ms, "#2a6")):
                parts.append(f'<rect x="180" y="{top + dy}" width="{400 * ms / most:.1f}" height="8" fill="{color}"/>')
            parts.append(f'<text x="174" y="{top + 15}" text-anchor="end">{html.escape(x.name)}</text>')
        return f'<svg width="600" height="{24 * len(self.layers) + 4}" font-size="12">{"".join(parts)}</svg>'

    def save(self, path):
        """Writes the report by the ending of its name: ``.html``, ``.json``, else the table."""
        path = str(path)
        text = self.html() if path.endswith(".html") else self.json() if path.endswith(".json") else str(self) + "\n"
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

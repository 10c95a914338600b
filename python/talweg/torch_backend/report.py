"""What `torch.compile` handed over, and what ran in PyTorch."""

# mypy: ignore-errors
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Graph:
    """A graph that was compiled."""

    kind: str
    operators: int
    fallbacks: dict[str, str] = field(default_factory=dict)


@dataclass
class Report:
    """The graphs so far: `fallbacks` are operators that ran in PyTorch, with the reason."""

    graphs: list[Graph] = field(default_factory=list)
    programs: Any = field(default_factory=weakref.WeakSet)

    def graph(self, kind, graph, refused):
        count = sum(n.op == "call_function" for n in graph.nodes)
        self.graphs.append(Graph(kind, count, {str(n.target): why for n, why in refused.items()}))

    @property
    def fallbacks(self) -> dict[str, str]:
        return {op: why for g in self.graphs for op, why in g.fallbacks.items()}

    @property
    def graph_breaks(self) -> dict[str, int]:
        """Where Dynamo left the graph, by reason."""
        from torch._dynamo.utils import counters

        return dict(counters["graph_break"])

    def explain(self) -> str:
        """What was compiled, program by program, of those that are still in use."""
        return "\n".join(text for p in self.programs for text in p.explain())

    def clear(self):
        from torch._dynamo.utils import counters

        counters["graph_break"].clear()
        self.graphs.clear()
        self.programs.clear()

    def __str__(self):
        kinds = Counter(g.kind for g in self.graphs)
        lines = [f"{sum(kinds.values())} graphs: " + ", ".join(f"{n} {k}" for k, n in kinds.items())] if kinds else ["no graphs"]
        lines += [f"graph break: {why.splitlines()[0]} ({n})" for why, n in self.graph_breaks.items()]
        lines += [f"in PyTorch: {op}: {why}" for op, why in sorted(self.fallbacks.items())]
        return "\n".join(lines if len(lines) > 1 else [*lines, "no graph breaks, no operators in PyTorch"])


REPORT = Report()

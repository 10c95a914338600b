"""Reads a pickle as data: its own interpreter, in which no name is looked up in a module and nothing is called but
the functions of a given table. Whatever else a file asks for is an error that names it.

Every opcode of protocols 0 to 5 that can make data is known. Nothing recurses, and nothing is allocated on a file's
word alone: a length beyond the end of the file is an error.
"""

import struct
from collections.abc import Callable
from typing import Any

from ..errors import FormatError

# Values nested deeper than this, or within themselves, were not made by a program that saves a model.
DEPTH_MAX = 500


class Global:
    """A name that a pickle asks for; ``call`` makes what it stands for."""

    def __init__(self, name: str, call: Callable[..., Any] | None) -> None:
        self.name, self._call = name, call

    def __call__(self, *args: Any) -> Any:
        if self._call is None:
            raise FormatError(f"the file calls {self.name}, which is not one of the functions that make data")
        return self._call(*args)


class Pending:
    """An object whose state comes later (``BUILD``): ``build`` takes it and gives what is meant."""

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build, self.value, self.is_built = build, None, False


_MARK = object()


class Unpickler:
    """Interprets the pickles of ``data`` one after the other."""

    def __init__(self, data: memoryview, table: dict[str, Any], persistent: Callable[[Any], Any] | None) -> None:
        self.data, self.at, self._table, self._persistent = data, 0, table, persistent
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The next pickle."""
        self._stack, self._marks, self._memo = [], [], {}
        try:
            while True:
                code = self._take(1)[0]
                if code == 0x2E:  # STOP
                    found = settled(self._pop())
                    check_nesting(found)
                    return found
                action = _ACTIONS.get(code)
                if action is None:
                    raise FormatError(f"byte {self.at - 1} of the pickle, {code:#04x}, is no opcode that makes data")
                action(self)
        except FormatError:
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, struct.error, MemoryError) as e:
            raise FormatError(f"the pickle is broken at byte {self.at}: {e}") from None

    # Bytes.

    def _take(self, n: int) -> memoryview:
        end = self.at + n
        if n < 0 or end > len(self.data):
            raise FormatError("the pickle is cut short")
        part, self.at = self.data[self.at : end], end
        return part

    def _int(self, kind: str) -> int:
        return struct.unpack("<" + kind, self._take(struct.calcsize("<" + kind)))[0]

    def _line(self) -> str:
        end = bytes(self.data[self.at : self.at + (1 << 13)]).find(b"\n")
        if end < 0:
            raise FormatError("the pickle is cut short")
        text = bytes(self._take(end + 1))[:-1]
        return text.decode("utf-8")

    def _text(self, kind: str) -> str:
        return bytes(self._take(self._int(kind))).decode("utf-8", "surrogatepass")

    # The stack.

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise FormatError("the pickle takes more values than there are")
        return self._stack.pop()

    def _marked(self) -> list[Any]:
        if not self._marks:
            raise FormatError("the pickle has no mark where it takes what follows one")
        start = self._marks.pop()
        found = self._stack[start + 1 :]
        del self._stack[start:]
        return found

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise FormatError("the pickle takes more values than there are")
        return self._stack[-1]

    # Opcodes.

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _mark(self) -> None:
        self._marks.append(len(self._stack))
        self._stack.append(_MARK)

    def _put(self, index: int) -> None:
        self._memo[index] = self._top()

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise FormatError(f"the pickle refers to value {index}, which it has not made")
        self._stack.append(self._memo[index])

    def _tuple(self, n: int) -> None:
        self._stack.append(tuple(reversed([settled(self._pop()) for _ in range(n)])))

    def _append(self, items: list[Any]) -> None:
        to = self._top()
        if type(to) is not list:
            raise FormatError(f"the pickle appends to {_named(to)}")
        to.extend(settled(x) for x in items)

    def _add(self) -> None:
        items, to = self._marked(), self._top()
        if type(to) is not set:
            raise FormatError(f"the pickle adds to {_named(to)}")
        to.update(settled(x) for x in items)

    def _set(self, items: list[Any]) -> None:
        to = self._top()
        if not isinstance(to, dict) or len(items) % 2:
            raise FormatError(f"the pickle sets items of {_named(to)}")
        for k, v in zip(items[::2], items[1::2]):
            to[settled(k)] = settled(v)

    def _global(self, module: str, name: str) -> None:
        known = f"{module}.{name}"
        if known not in self._table:
            raise FormatError(
                f"the file holds {known}, which is not data that talweg reads: tensors, numbers, strings, and "
                "containers of them; save model.state_dict() rather than objects of a program"
            )
        self._stack.append(self._table[known])

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise FormatError("the pickle names a class by something that is no string")
        self._global(module, name)

    def _reduce(self, f: Any, args: Any) -> None:
        if not isinstance(f, Global) or type(args) is not tuple:
            raise FormatError(f"the pickle calls {_named(f)}")
        self._stack.append(f(*(settled(a) for a in args)))

    def _new(self, with_names: bool = False) -> None:
        names = self._pop() if with_names else {}
        args, f = self._pop(), self._pop()
        if names:
            raise FormatError(f"the pickle makes {_named(f)} with named arguments")
        self._reduce(f, args)

    def _build(self) -> None:
        state, to = settled(self._pop()), self._top()
        if isinstance(to, Pending):
            if to.is_built:
                raise FormatError("the pickle gives an object its state twice")
            to.value, to.is_built = to.build(state), True
        elif isinstance(to, dict) and type(to) is not dict and type(state) is dict and set(state) <= {"_metadata"}:
            pass  # what state_dict() of a module carries for itself
        elif state:
            raise FormatError(f"the pickle gives a state to {_named(to)}")

    def _persist(self, key: Any) -> None:
        if self._persistent is None:
            raise FormatError("the pickle refers to data outside of itself")
        self._stack.append(self._persistent(settled(key)))

    def _frame(self) -> None:
        if self._int("Q") > len(self.data) - self.at:
            raise FormatError("the pickle is cut short")

    def _number(self) -> None:
        text = self._line()
        self._stack.append({"00": False, "01": True}[text] if text in ("00", "01") else int(text))

    def _quoted(self) -> None:
        text = self._line()
        if len(text) < 2 or text[0] != text[-1] or text[0] not in "'\"" or "\\" in text:
            raise FormatError("the pickle has a string that is not quoted")
        self._stack.append(text[1:-1])

    def _long(self, kind: str) -> None:
        self._stack.append(int.from_bytes(self._take(self._int(kind)), "little", signed=True))


def settled(value: Any) -> Any:
    """The value that an object with a state stands for."""
    if isinstance(value, Pending):
        if not value.is_built:
            raise FormatError("the pickle uses an object before it has a state")
        return value.value
    return value


def check_nesting(root: Any) -> None:
    """Refuses values that are nested too deep or within themselves; shared ones are looked at once."""
    done: set[int] = set()
    path: set[int] = set()
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        value, is_over = todo.pop()
        if is_over:
            path.discard(id(value))
            done.add(id(value))
            continue
        if not isinstance(value, (list, tuple, dict, set, frozenset)) or id(value) in done:
            continue
        if id(value) in path:
            raise FormatError("the file holds a container that contains itself")
        path.add(id(value))
        if len(path) > DEPTH_MAX:
            raise FormatError(f"the file holds containers that are nested more than {DEPTH_MAX} deep")
        todo.append((value, True))
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        todo.extend((p, False) for p in parts)


def _named(value: Any) -> str:
    return value.name if isinstance(value, Global) else type(value).__name__


def _actions() -> dict[int, Callable[[Unpickler], None]]:
    push, take = Unpickler._push, Unpickler._take
    named: dict[bytes, Callable[[Unpickler], Any]] = {
        b"\x80": lambda u: u._int("B"),
        b"\x95": Unpickler._frame,
        b"(": Unpickler._mark,
        b"0": lambda u: u._pop() if u._stack and u._stack[-1] is not _MARK else u._marked(),
        b"1": Unpickler._marked,
        b"2": lambda u: push(u, u._top()),
        b"N": lambda u: push(u, None),
        b"\x88": lambda u: push(u, True),
        b"\x89": lambda u: push(u, False),
        b"I": Unpickler._number,
        b"L": lambda u: push(u, int(u._line().removesuffix("L"))),
        b"F": lambda u: push(u, float(u._line())),
        b"J": lambda u: push(u, u._int("i")),
        b"K": lambda u: push(u, u._int("B")),
        b"M": lambda u: push(u, u._int("H")),
        b"\x8a": lambda u: u._long("B"),
        b"\x8b": lambda u: u._long("i"),
        b"G": lambda u: push(u, struct.unpack(">d", take(u, 8))[0]),
        b"V": lambda u: push(u, u._line().encode("latin-1", "backslashreplace").decode("raw-unicode-escape")),
        b"X": lambda u: push(u, u._text("I")),
        b"\x8c": lambda u: push(u, u._text("B")),
        b"\x8d": lambda u: push(u, u._text("Q")),
        b"S": Unpickler._quoted,
        b"T": lambda u: push(u, bytes(take(u, u._int("i"))).decode("latin-1")),
        b"U": lambda u: push(u, bytes(take(u, u._int("B"))).decode("latin-1")),
        b"B": lambda u: push(u, bytes(take(u, u._int("I")))),
        b"C": lambda u: push(u, bytes(take(u, u._int("B")))),
        b"\x8e": lambda u: push(u, bytes(take(u, u._int("Q")))),
        b"\x96": lambda u: push(u, bytearray(take(u, u._int("Q")))),
        b"]": lambda u: push(u, []),
        b"l": lambda u: push(u, [settled(x) for x in u._marked()]),
        b"a": lambda u: u._append([u._pop()]),
        b"e": lambda u: u._append(u._marked()),
        b")": lambda u: push(u, ()),
        b"t": lambda u: push(u, tuple(settled(x) for x in u._marked())),
        b"\x85": lambda u: u._tuple(1),
        b"\x86": lambda u: u._tuple(2),
        b"\x87": lambda u: u._tuple(3),
        b"}": lambda u: push(u, {}),
        b"d": lambda u: (lambda items: (push(u, {}), u._set(items)))(u._marked()),
        b"s": lambda u: (lambda v, k: u._set([k, v]))(u._pop(), u._pop()),
        b"u": lambda u: u._set(u._marked()),
        b"\x8f": lambda u: push(u, set()),
        b"\x90": Unpickler._add,
        b"\x91": lambda u: push(u, frozenset(settled(x) for x in u._marked())),
        b"c": lambda u: u._global(u._line(), u._line()),
        b"\x93": Unpickler._stack_global,
        b"R": lambda u: (lambda args, f: u._reduce(f, args))(u._pop(), u._pop()),
        b"\x81": Unpickler._new,
        b"\x92": lambda u: u._new(True),
        b"b": Unpickler._build,
        b"P": lambda u: u._persist(u._line()),
        b"Q": lambda u: u._persist(u._pop()),
        b"p": lambda u: u._put(int(u._line())),
        b"q": lambda u: u._put(u._int("B")),
        b"r": lambda u: u._put(u._int("I")),
        b"\x94": lambda u: u._put(len(u._memo)),
        b"g": lambda u: u._get(int(u._line())),
        b"h": lambda u: u._get(u._int("B")),
        b"j": lambda u: u._get(u._int("I")),
    }
    return {code[0]: action for code, action in named.items()}


_ACTIONS = _actions()

"""Text: lines, chunks of tokens for language models, and tokenizers."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from .. import _native
from .._checked import file_error, value_error
from .._native import Tensor
from ..errors import DeviceError, FormatError
from ..utils.data import Dataset


class Tokenizer(Protocol):
    """Text to token ids and back."""

    size: int

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Any) -> str: ...


def read_text(path: str | os.PathLike[str]) -> str:
    """A file as text; one that is not UTF-8 is an error that says where.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "text")
    >>> _ = open(path, "w").write("hello")
    >>> read_text(path)
    'hello'
    """
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except OSError as e:
        raise file_error(f"read_text: cannot read {os.fspath(path)}: {e.strerror}", e) from None
    except UnicodeDecodeError as e:
        raise FormatError(_native.located(f"{os.fspath(path)}: expected UTF-8 text, found other bytes at byte {e.start}")) from None


class Lines(Dataset[str]):
    """The lines of a text file, without their ends.

    >>> list(Lines.of("one\\ntwo"))
    ['one', 'two']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._lines = read_text(path).split("\n")
        self._trim()

    @classmethod
    def of(cls, text: str) -> "Lines":
        """The lines of a text."""
        made = cls.__new__(cls)
        made._lines = text.split("\n")
        made._trim()
        return made

    def _trim(self) -> None:
        if self._lines[-1] == "":
            self._lines.pop()
        self._lines = [line.removesuffix("\r") for line in self._lines]

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: Any) -> Any:
        return self._lines[index]


class Bytes:
    """Byte-level tokenizer: every byte of the UTF-8 text is a token.

    >>> Bytes().encode("né"), Bytes().decode([110, 195, 169])
    ([110, 195, 169], 'né')
    """

    size = 256

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(text.encode())

    def decode(self, tokens: Any) -> str:
        """The text of tokens; invalid UTF-8 becomes ``�``."""
        return bytes(_checked(tokens, self.size)).decode("utf-8", "replace")


class Chars:
    """Character-level tokenizer: every character of an alphabet is a token: those that occur in ``text``, in Unicode's order.

    >>> chars = Chars("to be or not to be")
    >>> chars.size, chars.decode(chars.encode("beet"))
    (7, 'beet')
    """

    def __init__(self, text: str) -> None:
        self.alphabet = "".join(sorted(set(text)))
        self.size = len(self.alphabet)
        self._number = {c: i for i, c in enumerate(self.alphabet)}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        try:
            return [self._number[c] for c in text]
        except KeyError as e:
            at = text.index(e.args[0])
            raise value_error(f"character {e.args[0]!r} (at {at}) is not among the {self.size} this tokenizer knows") from None

    def decode(self, tokens: Any) -> str:
        """The text of tokens."""
        return "".join(self.alphabet[i] for i in _checked(tokens, self.size))


class Bpe:
    """Byte-pair encoding: ``Bpe.train(texts, size)``, or ``Bpe.load`` of a ``tokenizer.json``, of any model.

    It is there if talweg was built with the feature ``tokenizers``, as wheels are; if not, making one says so.
    """

    def __init__(self, native: Any) -> None:
        self._native = native
        self.size: int = native.size()

    @staticmethod
    def _class() -> Any:
        if "tokenizers" not in _native.DATA_FEATURES:
            hint = "build talweg with the feature `tokenizers` (maturin build --features tokenizers)"
            raise DeviceError(_native.located(f"this build has no byte-pair encoding: {hint}"))
        return _native.Bpe

    @classmethod
    def train(cls, texts: Iterable[str], size: int, special: Sequence[str] = ()) -> "Bpe":
        """Learns ``size`` tokens: first the special ones, then the 256 bytes, then merges. Texts are best given in
        pieces, such as lines."""
        return cls(cls._class().train(list(texts), size, list(special)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Bpe":
        """Loads a ``tokenizer.json``."""
        return cls(cls._class().load(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a ``tokenizer.json``; the file appears whole or not at all."""
        self._native.save(os.fspath(path))

    def token(self, text: str) -> int | None:
        """The id of a token."""
        return self._native.token(text)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self._native.encode(text)

    def decode(self, tokens: Any) -> str:
        """The text of tokens."""
        return self._native.decode(_checked(tokens, self.size))

    def __reduce__(self) -> Any:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            self.save(path)
            return _bpe_of, (read_text(path),)


def _bpe_of(text: str) -> Bpe:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return Bpe.load(file.name)


def _checked(tokens: Any, size: int) -> list[int]:
    found = tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)
    for t in found:
        if not 0 <= t < size:
            raise value_error(f"token {t} does not exist: the tokenizer has {size}")
    return found


class Text(Dataset[tuple[Tensor, Tensor]]):
    """Chunks of a long text: ``context`` tokens, and the same shifted by one, so that every token is followed by what is
    to be guessed. A chunk begins every ``stride`` tokens, one after the other unless given.

    >>> text = Text("hello world", Bytes(), context=4)
    >>> len(text), [t.tolist() for t in text[1]]
    (2, [[111, 32, 119, 111], [32, 119, 111, 114]])
    """

    def __init__(self, text: str, tokenizer: Tokenizer, context: int, stride: int | None = None) -> None:
        self._set(np.asarray(tokenizer.encode(text), "int64"), context, stride)

    def _set(self, tokens: np.ndarray, context: int, stride: int | None) -> "Text":
        if context < 1 or len(tokens) <= context:
            raise value_error(f"Text: expected a context of at least 1 and more tokens than that, found {len(tokens)} tokens for a context of {context}")
        if stride is not None and stride < 1:
            raise value_error(f"Text: a stride is at least 1, found {stride}")
        self.tokens, self.context, self.stride = tokens, context, stride or context
        return self

    @classmethod
    def open(cls, path: str | os.PathLike[str], tokenizer: Tokenizer, context: int, stride: int | None = None) -> "Text":
        """Chunks of a text file."""
        return cls(read_text(path), tokenizer, context, stride)

    @classmethod
    def of_tokens(cls, tokens: Any, context: int, stride: int | None = None) -> "Text":
        """Chunks of tokens."""
        return cls.__new__(cls)._set(np.asarray(tokens, "int64"), context, stride)

    def cut(self, share: float) -> tuple["Text", "Text"]:
        """Two texts: the first ``share`` of the tokens, and the rest."""
        at = int(len(self.tokens) * min(max(share, 0.0), 1.0))
        return Text.of_tokens(self.tokens[:at], self.context, self.stride), Text.of_tokens(self.tokens[at:], self.context, self.stride)

    def __len__(self) -> int:
        return (len(self.tokens) - self.context - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"chunk {index} does not exist: the text has {len(self)}")
        start = index % len(self) * self.stride
        chunk = self.tokens[start : start + self.context + 1]
        return _native.tensor(chunk[:-1]), _native.tensor(chunk[1:])


__all__ = ["Bpe", "Bytes", "Chars", "Lines", "Text", "read_text"]

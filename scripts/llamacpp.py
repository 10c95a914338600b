"""llama.cpp's C interface, from the library inside PyPI's `xllamacpp`: logits, times, and its quantizer.

Parameters are passed as opaque bytes that llama.cpp filled itself; only leading fields of the context's are changed,
after a check that they hold the documented defaults.
"""

import ctypes as c
import pathlib
import time

import numpy as np


class _Opaque(c.Structure):
    _fields_ = [("bytes", c.c_uint8 * 1024)]


class _Batch(c.Structure):
    _fields_ = [("count", c.c_int32), ("token", c.c_void_p), ("embd", c.c_void_p), ("pos", c.c_void_p),
                ("n_seq_id", c.c_void_p), ("seq_id", c.c_void_p), ("logits", c.c_void_p)]


def _library() -> c.CDLL:
    import xllamacpp

    return c.CDLL(str(next(pathlib.Path(xllamacpp.__file__).parent.glob("xllamacpp*.so"))))


def params_words(params: _Opaque) -> c.Array:
    return (c.c_int32 * 64).from_buffer(params)


class Llama:
    """A model and one sequence."""

    def __init__(self, path: str, context: int = 2048, threads: int = 2, batch: int = 2048, flash: int = -1,
                 cache: str = "f16") -> None:
        self.lib = lib = _library()
        quiet = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(lambda *_: None)
        self._quiet = quiet
        lib.llama_log_set(quiet, None)
        lib.llama_backend_init()
        for name in ("llama_model_default_params", "llama_context_default_params"):
            getattr(lib, name).restype = _Opaque
        lib.llama_model_load_from_file.argtypes = [c.c_char_p, _Opaque]
        lib.llama_model_load_from_file.restype = c.c_void_p
        lib.llama_init_from_model.argtypes = [c.c_void_p, _Opaque]
        lib.llama_init_from_model.restype = c.c_void_p
        lib.llama_model_get_vocab.argtypes = [c.c_void_p]
        lib.llama_model_get_vocab.restype = c.c_void_p
        lib.llama_vocab_n_tokens.argtypes = [c.c_void_p]
        lib.llama_get_logits.argtypes = lib.llama_get_memory.argtypes = [c.c_void_p]
        lib.llama_get_logits.restype = c.POINTER(c.c_float)
        lib.llama_get_memory.restype = c.c_void_p
        lib.llama_memory_clear.argtypes = [c.c_void_p, c.c_bool]
        lib.llama_decode.argtypes = [c.c_void_p, _Batch]
        lib.llama_tokenize.argtypes = [c.c_void_p, c.c_char_p, c.c_int32, c.c_void_p, c.c_int32, c.c_bool, c.c_bool]
        lib.llama_token_to_piece.argtypes = [c.c_void_p, c.c_int32, c.c_void_p, c.c_int32, c.c_int32, c.c_bool]
        lib.llama_set_n_threads.argtypes = [c.c_void_p, c.c_int32, c.c_int32]
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        assert self.model, f"llama.cpp cannot load {path}"
        params = lib.llama_context_default_params()
        head = (c.c_uint32 * 3).from_buffer(params)
        assert list(head) == [512, 2048, 512], f"unexpected defaults {list(head)}"
        head[0], head[1] = context, max(batch, context)
        # Four enumerations in a row are -1 by default; flash attention (-1: where it is faster, 0: off, 1: on) is the last.
        words = params_words(params)
        first = next(i for i in range(13) if list(words[i : i + 4]) == [-1] * 4)
        words[first + 3] = flash
        # The types of keys and values are behind the callback and its data, four words that are 0; F16 is 1.
        kinds = next(i for i in range(first + 4, 40) if list(words[i - 4 : i + 2]) == [0, 0, 0, 0, 1, 1])
        words[kinds : kinds + 2] = [{"f32": 0, "f16": 1}[cache]] * 2
        self.context = lib.llama_init_from_model(self.model, params)
        lib.llama_set_n_threads(self.context, threads, threads)
        self.vocab = lib.llama_model_get_vocab(self.model)
        self.tokens = lib.llama_vocab_n_tokens(self.vocab)
        self.at = 0

    def tokenize(self, text: str, begins: bool = True) -> list[int]:
        data, room = text.encode(), (c.c_int32 * (len(text.encode()) + 8))()
        n = self.lib.llama_tokenize(self.vocab, data, len(data), room, len(room), begins, True)
        return list(room[:n])

    def piece(self, token: int) -> str:
        room = c.create_string_buffer(256)
        n = self.lib.llama_token_to_piece(self.vocab, token, room, len(room), 0, True)
        return room.raw[: max(n, 0)].decode(errors="replace")

    def clear(self) -> None:
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        self.at = 0

    def decode(self, tokens: list[int], everywhere: bool = False) -> np.ndarray:
        """The logits after these tokens: of all of them, or of the last."""
        n = len(tokens)
        ids, pos = (c.c_int32 * n)(*tokens), (c.c_int32 * n)(*range(self.at, self.at + n))
        flags = (c.c_int8 * n)(*([1] * n if everywhere else [0] * (n - 1) + [1]))
        of = lambda x: c.cast(x, c.c_void_p).value
        status = self.lib.llama_decode(self.context, _Batch(n, of(ids), None, of(pos), None, None, of(flags)))
        assert status == 0, f"llama_decode: {status}"
        self.at += n
        rows = n if everywhere else 1
        return np.ctypeslib.as_array(self.lib.llama_get_logits(self.context), (rows, self.tokens)).copy()

    def speed(self, prompt: int, tokens: int) -> tuple[float, float]:
        """Tokens a second of prefill and of decode."""
        ids = [(i * 7919 + 13) % (self.tokens - 300) + 100 for i in range(prompt)]
        self.clear()
        began = time.perf_counter()
        z = self.decode(ids)
        prefill = prompt / (time.perf_counter() - began)
        began = time.perf_counter()
        for _ in range(tokens):
            z = self.decode([int(z[0].argmax())])
        return prefill, tokens / (time.perf_counter() - began)


def quantize(kind: int, weights: np.ndarray) -> np.ndarray:
    """Rows quantized by ggml, as bytes; `kind` is GGUF's number."""
    import gguf

    lib = _library()
    lib.ggml_quantize_chunk.argtypes = [c.c_int, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64, c.c_int64, c.c_void_p]
    lib.ggml_quantize_chunk.restype = c.c_size_t
    rows, width = weights.shape
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    out = np.zeros((rows, width // block * size), np.uint8)
    weights = np.ascontiguousarray(weights, np.float32)
    lib.ggml_quantize_chunk(kind, weights.ctypes.data, out.ctypes.data, 0, rows, width, None)
    return out

"""Serving: a client of inference servers, and exported models in this process.

>>> import tempfile, talweg as tw
>>> with tempfile.TemporaryDirectory() as d:
...     tw.export(lambda x: x + 1, d + "/m", (tw.zeros(1, 2),), dynamic_shapes={"x": {0: "batch"}})
...     model = tw.serve.load(d + "/m")
>>> model.inputs[0]["shape"]
['batch', 2]
>>> model(tw.zeros(1, 2))["output"].tolist()
[[1.0, 1.0]]
"""

import http.client
import json
import os
import socket
import ssl
from typing import Any, Mapping
from urllib.parse import quote, urlsplit

from . import _native
from ._native import Tensor

__all__ = ["Client", "Model", "ServerError", "load"]

_DATATYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}


class ServerError(RuntimeError):
    """A server refused or failed. ``status`` is HTTP's; ``retry_after`` says when another try may succeed."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message, self.retry_after = status, message, retry_after


class Model:
    """An exported model in this process."""

    def __init__(self, native: Any) -> None:
        self._native = native
        signature = native.signature()
        self.name: str = signature["name"]
        self.inputs: list[dict[str, Any]] = signature["inputs"]
        self.outputs: list[dict[str, Any]] = signature["outputs"]
        self.is_batched: bool = signature["is_batched"]

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The outputs by name, for inputs in order or by name."""
        given = dict(zip((i["name"] for i in self.inputs), args), **kwargs)
        if missing := [i["name"] for i in self.inputs if i["name"] not in given]:
            raise TypeError(f"{self.name}: input {missing[0]!r} is missing")
        import talweg as tw

        outputs = self._native.run([tw.as_tensor(given[i["name"]]) for i in self.inputs])
        return dict(zip((o["name"] for o in self.outputs), outputs))

    def __repr__(self) -> str:
        def show(specs: list[dict[str, Any]]) -> str:
            return ", ".join(f"{s['name']}: {s['dtype']}{s['shape']}" for s in specs)

        return f"Model({self.name}: {show(self.inputs)} -> {show(self.outputs)})"


def load(directory: Any) -> Model:
    """Reads a directory that ``tw.export`` wrote. Every file is checked; nothing in it is trusted."""
    return Model(_native.Model.load(str(directory)))


class _UnixConnection(http.client.HTTPConnection):
    """A connection over a Unix domain socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Region:
    """Inputs of requests in shared memory that a server of the same machine reads."""

    def __init__(self, client: "Client", size: int) -> None:
        from multiprocessing.shared_memory import SharedMemory

        self._client, self._memory = client, SharedMemory(create=True, size=size)
        self.size, self.name = size, f"talweg-{os.getpid()}-{self._memory.name.strip('/')}"
        try:
            body = json.dumps({"key": "/" + self._memory.name.strip("/"), "offset": 0, "byte_size": size}).encode()
            client._send("POST", f"/v2/systemsharedmemory/region/{self.name}/register", body)
        except BaseException:
            self._free()
            raise

    def put(self, arrays: list[Any]) -> list[dict[str, Any]]:
        """Copies the arrays; returns what a request says about each."""
        import numpy as np

        parameters, at = [], 0
        for array in arrays:
            np.frombuffer(self._memory.buf, dtype=array.dtype, count=array.size, offset=at)[:] = array.reshape(-1)
            parameters.append({"shared_memory_region": self.name, "shared_memory_offset": at,
                               "shared_memory_byte_size": array.nbytes})
            at += _aligned(array.nbytes)
        return parameters

    def close(self) -> None:
        """Has the server forget it, and frees it."""
        try:
            self._client._send("POST", f"/v2/systemsharedmemory/region/{self.name}/unregister")
        except (ServerError, OSError, http.client.HTTPException):
            pass  # The server is gone, and with it what it knew.
        finally:
            self._free()

    def _free(self) -> None:
        self._memory.close()
        self._memory.unlink()


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


class Client:
    """A connection to a server of the Open Inference Protocol, Talweg's or another. Tensors travel as bytes.

    A client belongs to one thread. Arrays are NumPy's; tensors are accepted too. ``unix:///path`` is a server's Unix domain
    socket. With ``shared_memory=True``, inputs are put into shared memory, which a server of the same machine reads (Triton's
    system shared memory; ``talweg serve --shared-memory``).
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, key: str | None = None, timeout: float = 60.0,
                 context: ssl.SSLContext | None = None, shared_memory: bool = False) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https", "unix"):
            raise ValueError(f"{url}: write http://, https:// or unix:///path")
        self._is_sharing = shared_memory
        self._region: _Region | None = None
        if parts.scheme == "unix":
            self._http: http.client.HTTPConnection = _UnixConnection(parts.path, timeout)
            self._base, self._headers = "", {"Authorization": f"Bearer {key}"} if key else {}
            return
        port = parts.port or (443 if parts.scheme == "https" else 8000)
        if parts.scheme == "https":
            self._http = http.client.HTTPSConnection(parts.hostname or "", port, timeout=timeout, context=context)
        else:
            self._http = http.client.HTTPConnection(parts.hostname or "", port, timeout=timeout)
        self._base, self._headers = parts.path.rstrip("/"), {"Authorization": f"Bearer {key}"} if key else {}

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; the next call opens another."""
        if self._region is not None:
            region, self._region = self._region, None
            region.close()
        self._http.close()

    def _send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = {}) -> tuple[Any, bytes]:
        for attempt in (0, 1):
            try:
                self._http.request(method, self._base + path, body, {**self._headers, **headers})
                response = self._http.getresponse()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The server closed a connection that was idle: nothing of the answer was read.
                self._http.close()
                if attempt:
                    raise
        data = response.read()
        if response.status != 200:
            try:
                message = json.loads(data)["error"]
            except (ValueError, KeyError, TypeError):
                message = data.decode("utf-8", "replace")[:500] or response.reason
            retry = response.headers.get("Retry-After")
            raise ServerError(response.status, message, float(retry) if retry and retry.isdigit() else None)
        return response.headers, data

    def _json(self, method: str, path: str) -> Any:
        return json.loads(self._send(method, path)[1] or b"null")

    def is_live(self) -> bool:
        """Whether the process answers."""
        return self._is("/v2/health/live")

    def is_ready(self, model: str | None = None) -> bool:
        """Whether the server, or a model of it, takes requests."""
        return self._is("/v2/health/ready" if model is None else f"/v2/models/{quote(model, safe='')}/ready")

    def _is(self, path: str) -> bool:
        try:
            self._send("GET", path)
            return True
        except (ServerError, OSError):
            return False

    def metadata(self, model: str, version: int | None = None) -> dict[str, Any]:
        """Inputs and outputs of a model."""
        return self._json("GET", self._path(model, version))

    def statistics(self, model: str) -> dict[str, Any]:
        """Counters of a model."""
        return self._json("GET", f"/v2/models/{quote(model, safe='')}/stats")

    def index(self) -> list[dict[str, Any]]:
        """Every model of the repository with its state."""
        return self._json("POST", "/v2/repository/index")

    def load(self, model: str) -> None:
        """Has the server load a model, or its new versions."""
        self._json("POST", f"/v2/repository/models/{quote(model, safe='')}/load")

    def unload(self, model: str) -> None:
        """Has the server unload a model."""
        self._json("POST", f"/v2/repository/models/{quote(model, safe='')}/unload")

    @staticmethod
    def _path(model: str, version: int | None) -> str:
        return f"/v2/models/{quote(model, safe='')}" + (f"/versions/{version}" if version is not None else "")

    def infer(self, model: str, inputs: Mapping[str, Any], *, version: int | None = None, timeout_ms: float | None = None,
              priority: int = 0) -> dict[str, Any]:
        """The outputs of a model by name, as NumPy arrays. ``timeout_ms`` is a deadline: the server does not begin what
        it could not answer in time. Priority 1 is served first."""
        import numpy as np

        kinds = {np.dtype(d): n for n, d in _DATATYPES.items()}
        tensors, arrays = [], []
        for name, value in inputs.items():
            array = np.ascontiguousarray(value.numpy() if isinstance(value, Tensor) else value)
            if array.dtype not in kinds:
                raise TypeError(f"{name}: {array.dtype} cannot be sent")
            arrays.append(array)
            tensors.append({"name": name, "shape": list(np.shape(value)), "datatype": kinds[array.dtype],
                            "parameters": {"binary_data_size": array.nbytes}})
        blobs = [] if self._is_sharing else [array.tobytes() for array in arrays]
        if self._is_sharing:
            size = sum(_aligned(array.nbytes) for array in arrays)
            if self._region is not None and self._region.size < size:
                region, self._region = self._region, None
                region.close()
            if self._region is None:
                self._region = _Region(self, max(size, 1 << 16))
            for tensor, own in zip(tensors, self._region.put(arrays)):
                tensor["parameters"] = own
        parameters: dict[str, Any] = {"binary_data_output": True}
        if timeout_ms is not None:
            parameters["timeout"] = max(1, int(timeout_ms * 1000))
        if priority:
            parameters["priority"] = priority
        head = json.dumps({"inputs": tensors, "parameters": parameters}).encode()
        headers, data = self._send("POST", self._path(model, version) + "/infer", b"".join([head, *blobs]),
                                   {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"})
        length = int(headers.get("Inference-Header-Content-Length") or len(data))
        rest, out = memoryview(data)[length:], {}
        for tensor in json.loads(data[:length])["outputs"]:
            size = tensor.get("parameters", {}).get("binary_data_size")
            if tensor["datatype"] == "BF16":
                raise TypeError(f"{tensor['name']}: NumPy has no bfloat16")
            dtype = np.dtype(_DATATYPES[tensor["datatype"]])
            if size is None:
                array = np.array(tensor["data"], dtype=dtype)
            else:
                array, rest = np.frombuffer(rest[:size], dtype=dtype), rest[size:]
            out[tensor["name"]] = array.reshape(tensor["shape"])
        return out

"""Clients and tools of others against `talweg serve`: tritonclient, KServe's SDK, curl, schemathesis, a browser.
What is not installed is skipped; `cargo xtask ci` lists it."""

import importlib.util
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import talweg as tw
from test_serve import example, export, same_shape_answer, served  # noqa: F401


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("is_binary", [True, False])
def test_tritonclient(served, protocol, is_binary):  # noqa: F811
    triton = pytest.importorskip(f"tritonclient.{protocol}", reason=f"tritonclient[{protocol}] is not installed")
    url, model, _ = served
    with triton.InferenceServerClient(url.removeprefix("http://")) as client:
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("net")
        metadata = client.get_model_metadata("net")
        assert (metadata["platform"] if protocol == "http" else metadata.platform) == "talweg"
        x = example(3, 5)
        tensor = triton.InferInput("x", [3, 6], "FP32")
        if protocol == "http":
            tensor.set_data_from_numpy(x, binary_data=is_binary)
            outputs = [triton.InferRequestedOutput("logits", binary_data=is_binary)]
        else:
            tensor.set_data_from_numpy(x)
            outputs = [triton.InferRequestedOutput("logits")] if is_binary else None

        def ask():
            result = client.infer("net", [tensor], outputs=outputs, request_id="1", timeout=30_000_000, priority=1)
            response = result.get_response()
            size = response["parameters"]["batch_size"] if protocol == "http" else response.parameters["batch_size"].int64_param
            return result.as_numpy("logits"), size

        assert np.array_equal(same_shape_answer(ask, 3), model(x)["logits"].numpy())
        packing = dict(request_compression_algorithm="gzip", response_compression_algorithm="gzip") if protocol == "http" else {}
        assert client.infer("net", [tensor], **packing).as_numpy("label").shape == (3,)
        index = client.get_model_repository_index()
        assert (index[0]["state"] if protocol == "http" else index.models[0].state) == "READY"
        statistics = client.get_inference_statistics("net")
        assert (statistics["model_stats"][0]["inference_count"] if protocol == "http" else statistics.model_stats[0].inference_count) > 0
        client.load_model("net")
        from tritonclient.utils import InferenceServerException

        with pytest.raises(InferenceServerException, match="no model"):
            client.infer("other", [tensor])


@pytest.fixture(scope="module")
def sharing(tmp_path_factory):
    """A server that reads shared memory, also at a Unix domain socket."""
    folder = tmp_path_factory.mktemp("sharing")
    export(folder / "repository" / "net" / "1")
    command = [sys.executable, "-m", "talweg", "serve", str(folder / "repository"), "--port", "0", "--shared-memory",
               "--unix", str(folder / "socket")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    assert line, "the server did not start"
    try:
        yield line.split()[3].rstrip("/"), tw.serve.load(folder / "repository" / "net" / "1"), folder / "socket"
    finally:
        server.terminate()
        assert server.wait(60) == 0
        assert not (folder / "socket").exists()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tritonclient_with_shared_memory(sharing, protocol):
    triton = pytest.importorskip(f"tritonclient.{protocol}", reason=f"tritonclient[{protocol}] is not installed")
    import tritonclient.utils.shared_memory as shm
    from tritonclient.utils import InferenceServerException

    url, model, _ = sharing
    x = example(3, 5)
    given = shm.create_shared_memory_region("given", f"/talweg-test-in-{protocol}", 4096)
    made = shm.create_shared_memory_region("made", f"/talweg-test-out-{protocol}", 4096)
    try:
        with triton.InferenceServerClient(url.removeprefix("http://")) as client:
            # As the examples of Triton begin.
            client.unregister_system_shared_memory()
            client.unregister_cuda_shared_memory()
            client.register_system_shared_memory("given", f"/talweg-test-in-{protocol}", 4096)
            client.register_system_shared_memory("made", f"/talweg-test-out-{protocol}", 4000, offset=96)
            status = client.get_system_shared_memory_status()
            if protocol == "http":
                sizes = {r["name"]: (r["offset"], r["byte_size"]) for r in status}
            else:
                sizes = {name: (r.offset, r.byte_size) for name, r in status.regions.items()}
            assert sizes == {"given": (0, 4096), "made": (96, 4000)}
            tensor = triton.InferInput("x", [3, 6], "FP32")
            tensor.set_shared_memory("given", x.nbytes, offset=64)
            shm.set_shared_memory_region(given, [x], offset=64)
            shared, sent = triton.InferRequestedOutput("logits"), triton.InferRequestedOutput("label")
            shared.set_shared_memory("made", 48, offset=160)

            def ask():
                result = client.infer("net", [tensor], outputs=[shared, sent])
                response = result.get_response()
                size = response["parameters"]["batch_size"] if protocol == "http" else response.parameters["batch_size"].int64_param
                assert result.as_numpy("label").shape == (3,)
                return shm.get_contents_as_numpy(made, np.float32, [3, 4], offset=256).copy(), size

            assert np.array_equal(same_shape_answer(ask, 3), model(x)["logits"].numpy())
            # What does not fit, does not exist or lies outside is an error of the request.
            shared.set_shared_memory("made", 47, offset=160)
            with pytest.raises(InferenceServerException, match="do not fit"):
                client.infer("net", [tensor], outputs=[shared])
            for region, size, offset in [("given", 72, 4096 - 71), ("given", 72, 2**62), ("other", 72, 0), ("given", 71, 0)]:
                bad = triton.InferInput("x", [3, 6], "FP32").set_shared_memory(region, size, offset=offset)
                with pytest.raises(InferenceServerException):
                    client.infer("net", [bad])
            for key, size in [(f"/talweg-test-in-{protocol}", 4097), ("/../etc/hostname", 1), ("/none", 1)]:
                with pytest.raises(InferenceServerException):
                    client.register_system_shared_memory("bad", key, size)
            # A file that becomes shorter does not end the server.
            with open(f"/dev/shm/talweg-test-in-{protocol}", "r+b") as file:
                file.truncate(64)
            with pytest.raises(InferenceServerException, match="shorter"):
                client.infer("net", [tensor])
            assert client.is_server_ready()
            client.unregister_system_shared_memory("given")
            with pytest.raises(InferenceServerException, match="no shared memory region"):
                client.infer("net", [tensor])
    finally:
        shm.destroy_shared_memory_region(given)
        shm.destroy_shared_memory_region(made)


def test_shared_memory_is_off_by_default(served):  # noqa: F811
    url, _, _ = served
    with tw.serve.Client(url, shared_memory=True) as client:
        with pytest.raises(tw.serve.ServerError, match="--shared-memory"):
            client.infer("net", {"x": example(1)})


def test_our_client_with_shared_memory_and_a_unix_socket(sharing):
    url, model, path = sharing
    for address in (url, f"unix://{path}"):
        with tw.serve.Client(address, shared_memory=True) as client:
            assert client.is_ready()
            for rows in (1, 3, 5000):
                x = example(rows, rows)
                answer = client.infer("net", {"x": x})
                assert np.allclose(answer["logits"], model(x)["logits"].numpy(), atol=1e-5)
        with tw.serve.Client(address) as client:
            left = client._json("GET", "/v2/systemsharedmemory/status")
            assert not [r for r in left if r["name"].startswith("talweg-")], "the client has freed its own"
            assert np.allclose(client.infer("net", {"x": example(2)})["logits"], model(example(2))["logits"].numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="unix:///path"):
        tw.serve.Client("ftp://localhost")


# KServe's SDK and tritonclient both register the messages of package `inference`: one process cannot import both.
KSERVE = """
import asyncio, json, sys
import kserve, numpy as np

url, x = sys.argv[1], np.float32(json.loads(sys.argv[2]))

def request(is_binary):
    tensor = kserve.InferInput("x", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x, binary_data=is_binary)
    return kserve.InferRequest(model_name="net", infer_inputs=[tensor])

async def ask():
    rest = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", timeout=300))
    assert await rest.is_server_live(url) and await rest.is_server_ready(url) and await rest.is_model_ready(url, "net")
    grpc = kserve.InferenceGRPCClient(url.removeprefix("http://"), timeout=300)
    assert await grpc.is_server_ready() and await grpc.is_model_ready("net")
    answers = [await rest.infer(url, request(is_binary), model_name="net") for is_binary in (True, False)]
    answers.append(await grpc.infer(request(True)))
    await rest.close()
    await grpc.close()
    return answers

logits = [next(o for o in a.outputs if o.name == "logits").as_numpy().tolist() for a in asyncio.run(ask())]
print(json.dumps(logits))
"""


def test_kserve(served):  # noqa: F811
    if importlib.util.find_spec("kserve") is None:
        pytest.skip("kserve is not installed")
    url, model, _ = served
    x = example(1, 3)
    done = subprocess.run([sys.executable, "-c", KSERVE, url, json.dumps(x.tolist())], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) == 3
    for logits in answers:
        assert np.array_equal(np.float32(logits), model(x)["logits"].numpy())


def test_curl(served):  # noqa: F811
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    url, model, _ = served
    x = example(1, 4)

    def ask(*words):
        done = subprocess.run([curl, "-sS", "--max-time", "60", *words], capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 6], "datatype": "FP32", "data": x.tolist()}]})
    answer = json.loads(ask(f"{url}/v2/models/net/infer", "-d", body))
    assert np.array_equal(np.float32(answer["outputs"][0]["data"]), model(x)["logits"].numpy()[0])
    answer = json.loads(ask(f"{url}/v1/models/net:predict", "-d", json.dumps({"instances": x.tolist()}), "--compressed"))
    assert answer["predictions"][0]["label"] == int(model(x)["label"][0])
    assert ask(f"{url}/v2/health/ready", "-o", "/dev/null", "-w", "%{http_code}") == b"200"
    assert b"nv_inference_request_success" in ask(f"{url}/metrics")
    assert ask(f"{url}/v2/models/other", "-o", "/dev/null", "-w", "%{http_code}") == b"404"


def test_the_openapi_document_is_true(served):  # noqa: F811
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    url, _, _ = served
    # Unloading the model would take it from the other tests.
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--phases", "coverage,fuzzing", "-n", "3",
               "--exclude-path-regex", "unload", "--suppress-health-check", "all"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_the_page_in_a_browser(served):  # noqa: F811
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    url, _, _ = served
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", "--dump-dom", url]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "<td>net</td>" in page and "READY" in page and '<option>net</option>' in page, page[-3000:]
    assert '"name":"x","shape":[1,6],"datatype":"FP32"' in page or "bars" in page

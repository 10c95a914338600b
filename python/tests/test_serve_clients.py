"""Clients and tools of others against `talweg serve`: KServe's SDK, schemathesis on the OpenAPI document, a browser.
What is not installed is skipped; `cargo xtask ci` lists it."""

import asyncio
import shutil
import subprocess
import sys

import numpy as np
import pytest

from test_serve import example, served  # noqa: F401


def test_kserve(served):  # noqa: F811
    kserve = pytest.importorskip("kserve", reason="kserve is not installed")
    url, model, _ = served
    x = example(1, 3)

    def request(is_binary):
        tensor = kserve.InferInput("x", [1, 6], "FP32")
        tensor.set_data_from_numpy(x, binary_data=is_binary)
        return kserve.InferRequest(model_name="net", infer_inputs=[tensor])

    async def ask():
        rest = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", timeout=300))
        assert await rest.is_server_live(url) and await rest.is_server_ready(url) and await rest.is_model_ready(url, "net")
        grpc = kserve.InferenceGRPCClient(url.removeprefix("http://"))
        assert await grpc.is_server_ready() and await grpc.is_model_ready("net")
        answers = [await rest.infer(url, request(is_binary), model_name="net") for is_binary in (True, False)]
        return [*answers, await grpc.infer(request(True))]

    for answer in asyncio.run(ask()):
        logits = next(o for o in answer.outputs if o.name == "logits").as_numpy()
        assert np.array_equal(logits, model(x)["logits"].numpy())


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

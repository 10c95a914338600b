"""Clients of others against `talweg serve` of a language model: OpenAI's own. What is not installed is skipped."""

import json
import os
import subprocess
import sys

import pytest

from test_llm import _write

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    openai = pytest.importorskip("openai", reason="openai is not installed")
    path = tmp_path_factory.mktemp("llm") / "tiny.gguf"
    _write(path, length=2048)
    command = [sys.executable, "-m", "talweg", "serve", str(path), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        address = server.stdout.readline().split(" at ")[1].split("/ after")[0]
        yield openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60)
    finally:
        server.terminate()
        assert server.wait(60) == 0


def test_models(client):
    assert [m.id for m in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_chat(client):
    whole = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=8, temperature=0, logprobs=True,
                                           top_logprobs=2, extra_body={"ignore_eos": True})
    choice = whole.choices[0]
    assert choice.finish_reason == "length" and whole.usage.completion_tokens == 8 and len(choice.logprobs.content) == 8
    stream = client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=8, temperature=0, stream=True,
                                            stream_options={"include_usage": True}, extra_body={"ignore_eos": True})
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == choice.message.content
    assert chunks[-1].usage.completion_tokens == 8 and chunks[-1].usage.prompt_tokens_details.cached_tokens >= 0


def test_completions_and_embeddings(client):
    done = client.completions.create(model="tiny", prompt=["a", "b"], max_tokens=3, n=2, best_of=3, seed=1)
    assert [c.index for c in done.choices] == [0, 1, 2, 3]
    rows = client.embeddings.create(model="tiny", input=["one", "two"]).data
    assert len(rows) == 2 and sum(x * x for x in rows[0].embedding) == pytest.approx(1, abs=1e-4)


def test_structured_output(client):
    pydantic = pytest.importorskip("pydantic")

    class Answer(pydantic.BaseModel):
        sure: bool
        count: int = pydantic.Field(ge=0, le=9)

    parsed = client.chat.completions.parse(model="tiny", messages=MESSAGES, response_format=Answer, max_tokens=50)
    assert isinstance(parsed.choices[0].message.parsed, Answer)


def test_tools(client):
    tools = [{"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}}}]
    asked = {"model": "tiny", "messages": MESSAGES, "tools": tools, "tool_choice": "required", "max_tokens": 100, "seed": 1}
    message = client.chat.completions.create(**asked).choices[0].message
    call = message.tool_calls[0]
    assert call.function.name == "add" and json.loads(call.function.arguments)["a"] in (1, 2)
    parts = [c.choices[0].delta.tool_calls for c in client.chat.completions.create(stream=True, **asked) if c.choices]
    assert "".join(p[0].function.arguments for p in parts if p) == call.function.arguments
    after = [*MESSAGES, message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "3"}]
    assert client.chat.completions.create(model="tiny", messages=after, tools=tools, max_tokens=4).choices


def test_responses(client):
    whole = client.responses.create(model="tiny", input="hi", max_output_tokens=16, temperature=0)
    assert whole.status in ("completed", "incomplete")
    with client.responses.stream(model="tiny", input="hi", max_output_tokens=16, temperature=0) as stream:
        events = list(stream)
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    # A response that reached its length ends as `response.incomplete`.
    assert events[-1].type == f"response.{whole.status}"
    assert text == whole.output_text == events[-1].response.output_text


def test_errors(client):
    import openai

    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="tiny", messages=MESSAGES, temperature=-1)

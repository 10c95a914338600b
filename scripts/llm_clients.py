"""Clients of others against a running `talweg serve MODEL`, unchanged: what each printed, and whether it is as it should be.

    talweg serve model.gguf --port 8000 &
    python scripts/llm_clients.py http://127.0.0.1:8000 --tokenizer FOLDER --npm FOLDER

Clients: openai (Python), langchain-openai, litellm, openai from npm (in FOLDER/node_modules), and lm-eval with
`local-completions` and a task of its own; it needs a folder with tokenizer.json. What is not installed is named.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MESSAGES = [{"role": "user", "content": "Name a color. Answer with one word."}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}}]
SCHEMA = {"type": "object", "properties": {"color": {"enum": ["red", "green", "blue"]}, "sure": {"type": "boolean"}},
          "required": ["color", "sure"], "additionalProperties": False}


def openai_python(url: str, model: str) -> str:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)
    assert model in [m.id for m in client.models.list()]
    greedy = {"model": model, "temperature": 0, "max_tokens": 16}
    whole = client.chat.completions.create(messages=MESSAGES, logprobs=True, top_logprobs=3, **greedy)
    content = whole.choices[0].message.content
    chunks = list(client.chat.completions.create(messages=MESSAGES, stream=True,
                                                 stream_options={"include_usage": True}, **greedy))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == len(whole.choices[0].logprobs.content)
    form = {"type": "json_schema", "json_schema": {"name": "color", "schema": SCHEMA, "strict": True}}
    made = client.chat.completions.create(messages=MESSAGES, response_format=form, model=model, max_tokens=64)
    assert json.loads(made.choices[0].message.content)["color"] in ("red", "green", "blue")
    called = client.chat.completions.create(messages=[{"role": "user", "content": "How is the weather in Rome?"}],
                                            tools=TOOLS, tool_choice="required", model=model, max_tokens=100, temperature=0)
    call = called.choices[0].message.tool_calls[0].function
    assert call.name == "weather" and isinstance(json.loads(call.arguments)["city"], str)
    two = client.completions.create(model=model, prompt=["One, two,", "A, B,"], max_tokens=4, n=2, seed=3)
    assert [c.index for c in two.choices] == [0, 1, 2, 3]
    rows = client.embeddings.create(model=model, input=["a king", "a queen"]).data
    assert len(rows) == 2
    first = client.responses.create(model=model, input="Say hello.", max_output_tokens=16)
    client.responses.create(model=model, input="Again.", previous_response_id=first.id, max_output_tokens=16)
    return repr(content)


def langchain(url: str, model: str) -> str:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model=model, temperature=0, max_tokens=16)
    content = chat.invoke("Name a color. Answer with one word.").content
    assert content and "".join(c.content for c in chat.stream("Name a color. Answer with one word.")) == content
    chat = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model=model, temperature=0, max_tokens=100)
    bound = chat.bind_tools(TOOLS, tool_choice="weather").invoke("How is the weather in Rome?")
    assert bound.tool_calls[0]["name"] == "weather"
    return repr(content)


def litellm(url: str, model: str) -> str:
    import litellm as client

    asked = {"model": f"openai/{model}", "api_base": f"{url}/v1", "api_key": "none", "messages": MESSAGES,
             "temperature": 0, "max_tokens": 16}
    content = client.completion(**asked).choices[0].message.content
    parts = [c.choices[0].delta.content or "" for c in client.completion(stream=True, **asked) if c.choices]
    assert content and "".join(parts) == content
    return repr(content)


def openai_npm(url: str, model: str, folder: str) -> str:
    program = """
import OpenAI from 'openai';
const [url, model] = process.argv.slice(-2);
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Name a color. Answer with one word.' }];
const asked = { model, messages, temperature: 0, max_tokens: 16 };
const whole = await client.chat.completions.create(asked);
let text = '';
for await (const c of await client.chat.completions.create({ ...asked, stream: true }))
  text += c.choices[0]?.delta?.content ?? '';
if (text !== whole.choices[0].message.content) throw new Error(text);
const r = await client.responses.create({ model, input: 'Say hello.', max_output_tokens: 16 });
if (!['completed', 'incomplete'].includes(r.status)) throw new Error(r.status);
console.log(JSON.stringify(text));
"""
    path = pathlib.Path(folder) / "talweg_client.mjs"
    path.write_text(program)
    try:
        return subprocess.run(["node", path.name, url, model], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
    finally:
        path.unlink()


def lm_eval(url: str, model: str, tokenizer: str) -> str:
    """Questions whose answers everybody knows, and a perplexity."""
    rows = [("The capital of France is", ["Paris", "Berlin", "Tokyo", "Madrid"], 0),
            ("Two plus two is", ["nine", "four", "zero", "eleven"], 1),
            ("The opposite of hot is", ["red", "tall", "cold", "loud"], 2),
            ("A dog is an", ["animal", "engine", "orange", "island"], 0)]
    with tempfile.TemporaryDirectory() as at:
        data = [json.dumps({"question": q, "choices": c, "answer": a}) for q, c, a in rows]
        (pathlib.Path(at) / "rows.jsonl").write_text("\n".join(data))
        task = {"task": "talweg_local", "dataset_path": "json", "test_split": "train", "output_type": "multiple_choice",
                "dataset_kwargs": {"data_files": f"{at}/rows.jsonl"}, "doc_to_text": "{{question}}",
                "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}", "metric_list": [{"metric": "acc"}]}
        (pathlib.Path(at) / "talweg_local.yaml").write_text(json.dumps(task))
        args = f"model={model},base_url={url}/v1/completions,tokenizer={tokenizer},num_concurrent=2,tokenized_requests=False"
        command = [sys.executable, "-m", "lm_eval", "--model", "local-completions", "--model_args", args, "--tasks",
                   "talweg_local", "--include_path", at, "--output_path", f"{at}/out"]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
        found = list(pathlib.Path(at).glob("out/**/results*.json"))
        assert found, done.stderr[-2000:]
        accuracy = json.loads(found[0].read_text())["results"]["talweg_local"]["acc,none"]
        assert accuracy >= 0.75, accuracy
        return f"accuracy {accuracy}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", help="its name; the first that the server has if it is not given")
    parser.add_argument("--tokenizer", help="a folder with tokenizer.json, for lm-eval")
    parser.add_argument("--npm", help="a folder with node_modules/openai")
    o = parser.parse_args()
    import urllib.request

    models = json.load(urllib.request.urlopen(f"{o.url}/v1/models"))
    model = o.model or models["data"][0]["id"]
    clients = [("openai", "openai", openai_python, []), ("langchain-openai", "langchain_openai", langchain, []),
               ("litellm", "litellm", litellm, []), ("openai (npm)", None, openai_npm, [o.npm]),
               ("lm-eval", "lm_eval", lm_eval, [o.tokenizer])]
    failed = 0
    for name, module, client, more in clients:
        if (module and importlib.util.find_spec(module) is None) or None in more:
            print(f"{name}: not there")
            continue
        try:
            print(f"{name}: {client(o.url, model, *more)}")
        except Exception as e:  # every client is tried
            failed += 1
            print(f"{name}: FAILED: {type(e).__name__}: {e}")
    sys.exit(failed > 0)


main()

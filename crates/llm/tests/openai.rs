//! OpenAI's interface, spoken over a socket.

use cpu as _;
use http::Server;
use serde_json::{Value as Json, json};
use std::io::Read;
use std::time::Duration;
use talweg_llm::engine::{Handle, Options};
use talweg_llm::gguf::Format;
use talweg_llm::server::{Api, Keys};

mod http;
mod tiny;

fn start(open_max: usize, keys: Option<Keys>) -> Server {
    let options = Options { tokens_max: 32, sequences_max: 4, block_tokens: 4, ..Options::default() };
    let handle = Handle::start(tiny::load(Format::F32), options, open_max).unwrap();
    Server::start(Api::new(handle, "tiny", keys))
}

fn hello() -> Json {
    json!({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 6,
           "ignore_eos": true})
}

#[test]
fn chats_are_answered_whole_and_in_parts() {
    let server = start(8, None);
    let mut body = hello();
    (body["logprobs"], body["top_logprobs"]) = (json!(true), json!(2));
    let (status, whole) = server.post("/v1/chat/completions", body.clone());
    assert_eq!(status, 200, "{whole}");
    let choice = &whole["choices"][0];
    assert_eq!((&choice["finish_reason"], &whole["usage"]["completion_tokens"]), (&json!("length"), &json!(6)));
    assert_eq!(choice["logprobs"]["content"].as_array().unwrap().len(), 6);
    let first = &choice["logprobs"]["content"][0];
    assert_eq!(first["logprob"], first["top_logprobs"][0]["logprob"], "greedy takes the likeliest");
    // The second time the prompt's blocks are shared.
    body = hello();
    (body["stream"], body["stream_options"]) = (json!(true), json!({"include_usage": true}));
    let events = server.stream("/v1/chat/completions", body);
    assert_eq!(events.last().unwrap(), "[DONE]");
    let chunks: Vec<Json> = events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, choice["message"]["content"].as_str().unwrap());
    let usage = &chunks.last().unwrap()["usage"];
    assert!(usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(server.metric("vllm:generation_tokens_total"), 12.0);
    // The blocks are free in the step after the last token.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while server.metric("vllm:kv_cache_usage_perc") != 0.0 {
        assert!(std::time::Instant::now() < end, "the KV cache is still used");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn completions_take_every_form_of_prompt() {
    let server = start(16, None);
    let ask = |prompt: Json| {
        let body = json!({"prompt": prompt, "temperature": 0, "max_tokens": 3, "ignore_eos": true, "logprobs": 1});
        let (status, answer) = server.post("/v1/completions", body);
        assert_eq!(status, 200, "{answer}");
        answer["choices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["text"].as_str().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    let want = ask(json!("ab"));
    assert_eq!(ask(json!([97, 98])), want);
    assert_eq!(ask(json!(["ab", "ab"])), [want[0].clone(), want[0].clone()]);
    assert_eq!(ask(json!([[97, 98]])), want);
    // Benchmarks ask for the log probabilities of a given text.
    let body = json!({"prompt": "abc", "echo": true, "logprobs": 1, "max_tokens": 0});
    let (status, answer) = server.post("/v1/completions", body);
    let logprobs = &answer["choices"][0]["logprobs"];
    assert_eq!((status, &answer["choices"][0]["text"]), (200, &json!("abc")));
    assert_eq!((&logprobs["tokens"], &logprobs["token_logprobs"][0]), (&json!(["a", "b", "c"]), &Json::Null));
    assert!(logprobs["token_logprobs"][2].as_f64().unwrap() < 0.0);
    // A seed gives the same text, also as one of several.
    let drawn = |n: u32| {
        let body = json!({"prompt": "ab", "temperature": 1.0, "seed": 5, "max_tokens": 8, "n": n, "ignore_eos": true});
        server.post("/v1/completions", body).1["choices"][0]["text"].clone()
    };
    assert_eq!(drawn(1), drawn(3));
    let (_, embedded) = server.post("/v1/embeddings", json!({"input": ["ab", "abc"]}));
    let row = embedded["data"][1]["embedding"].as_array().unwrap();
    let norm: f64 = row.iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
    assert!(row.len() == tiny::HIDDEN && (norm - 1.0).abs() < 1e-5);
    let (_, tokens) = server.post("/tokenize", json!({"prompt": "ab"}));
    let want = json!({"count": 2, "max_model_len": tiny::LENGTH, "tokens": [97, 98], "token_strs": null});
    assert_eq!(tokens, want);
    assert_eq!(server.post("/detokenize", json!({"tokens": [97, 98]})).1["prompt"], "ab");
}

#[test]
fn texts_have_forms_and_tools_are_called() {
    let server = start(16, None);
    let mut body = hello();
    body["ignore_eos"] = json!(false);
    (body["max_tokens"], body["temperature"]) = (json!(80), json!(1));
    let asked = |extra: Json| {
        let mut body = body.clone();
        extra.as_object().unwrap().iter().for_each(|(k, v)| body[k.as_str()] = v.clone());
        let (status, answer) = server.post("/v1/chat/completions", body);
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0].clone()
    };
    let schema = json!({"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
                        "additionalProperties": false});
    let form = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let text = asked(json!({ "response_format": form }))["message"]["content"].as_str().unwrap().to_string();
    assert!(serde_json::from_str::<Json>(&text).unwrap()["a"].is_u64(), "{text}");
    let choice = asked(json!({"structured_outputs": {"choice": ["left", "right"]}}));
    assert!(["left", "right"].contains(&choice["message"]["content"].as_str().unwrap()));
    assert_eq!(choice["finish_reason"], "stop");
    // A call that must be made, whole and in parts.
    let tools = json!([{"type": "function", "function": {"name": "go", "parameters": {
        "type": "object", "properties": {"to": {"enum": ["a", "b"]}}, "required": ["to"],
        "additionalProperties": false}}}]);
    let must = json!({"tools": tools, "tool_choice": "required", "seed": 3, "max_tokens": 100});
    let choice = asked(must.clone());
    let call = &choice["message"]["tool_calls"][0]["function"];
    assert_eq!((&choice["finish_reason"], &call["name"]), (&json!("tool_calls"), &json!("go")), "{choice}");
    let arguments = call["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<Json>(arguments).unwrap()["to"].is_string(), "{arguments}");
    let mut streamed = body.clone();
    must.as_object().unwrap().iter().for_each(|(k, v)| streamed[k.as_str()] = v.clone());
    streamed["stream"] = json!(true);
    let events = server.stream("/v1/chat/completions", streamed);
    let chunks: Vec<Json> = events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    let deltas: Vec<&Json> = chunks.iter().map(|c| &c["choices"][0]["delta"]["tool_calls"][0]).collect();
    let parts: String = deltas.iter().filter_map(|d| d["function"]["arguments"].as_str()).collect();
    assert_eq!(parts, arguments);
    assert!(deltas.len() > 3 && chunks.last().unwrap()["choices"][0]["finish_reason"] == "tool_calls");
    // The newer interface.
    let response = json!({"input": "hi", "instructions": "be brief", "max_output_tokens": 5, "temperature": 0});
    let (status, whole) = server.post("/v1/responses", response.clone());
    assert_eq!((status, &whole["object"]), (200, &json!("response")), "{whole}");
    let text = whole["output"][0]["content"][0]["text"].as_str().unwrap();
    let mut streamed = response;
    streamed["stream"] = json!(true);
    let (_, _, events) = server.ask("POST", "/v1/responses", "", &streamed.to_string());
    let events: Vec<Json> =
        events.lines().filter_map(|l| l.strip_prefix("data: ")).map(|l| serde_json::from_str(l).unwrap()).collect();
    let deltas: String = events
        .iter()
        .filter(|e| e["type"] == "response.output_text.delta")
        .filter_map(|e| e["delta"].as_str())
        .collect();
    assert_eq!((events[0]["type"].as_str(), &deltas[..]), (Some("response.created"), text));
    assert!(events.iter().enumerate().all(|(i, e)| e["sequence_number"] == i));
    let last = events.last().unwrap();
    // The second time, the prompt is in the cache.
    let counts = |r: &Json| ["input_tokens", "output_tokens", "total_tokens"].map(|k| r["usage"][k].clone());
    assert_eq!(counts(&last["response"]), counts(&whole));
    // A response is kept, and the next one goes on after it.
    let (id, streamed_id) = (whole["id"].as_str().unwrap(), last["response"]["id"].as_str().unwrap());
    let kept = |id: &str| server.ask("GET", &format!("/v1/responses/{id}"), "", "");
    assert_eq!((kept(id).0, serde_json::from_str::<Json>(&kept(id).2).unwrap()), (200, whole.clone()));
    let next = json!({"input": "more", "previous_response_id": streamed_id, "max_output_tokens": 2, "store": false});
    let (_, next) = server.post("/v1/responses", next);
    let spoken = json!({"messages": [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": text}, {"role": "user", "content": "more"},
    ]});
    let (_, said) = server.post("/tokenize", spoken);
    assert_eq!(next["usage"]["input_tokens"], said["count"], "{next}");
    assert_eq!(kept(next["id"].as_str().unwrap()).0, 404);
    assert_eq!(server.ask("DELETE", &format!("/v1/responses/{id}"), "", "").0, 200);
    assert_eq!((kept(id).0, kept(streamed_id).0), (404, 200));
    // The best of several, a beam, and documents by their nearness.
    let few = json!({"prompt": "ab", "max_tokens": 4, "n": 2, "best_of": 4, "seed": 1, "ignore_eos": true});
    assert_eq!(server.post("/v1/completions", few).1["choices"].as_array().unwrap().len(), 2);
    let beam = json!({"prompt": "ab", "max_tokens": 4, "n": 2, "use_beam_search": true, "ignore_eos": true});
    assert_eq!(server.post("/v1/completions", beam).1["choices"].as_array().unwrap().len(), 2);
    let ranked = json!({"query": "abc", "documents": ["xyz", "abc"], "top_n": 1});
    let (_, ranked) = server.post("/v1/rerank", ranked);
    assert_eq!((&ranked["results"][0]["index"], ranked["results"].as_array().unwrap().len()), (&json!(1), 1));
    for (path, body, param) in [
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "xml"}}),
            "response_format",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}),
            "tool_choice",
        ),
        ("/v1/completions", json!({"prompt": "a", "guided_regex": "("}), "response_format"),
        ("/v1/responses", json!({"input": "a", "previous_response_id": "x"}), "previous_response_id"),
    ] {
        let (status, answer) = server.post(path, body);
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{answer}");
    }
    assert_eq!(server.post("/v1/load_lora_adapter", json!({"lora_name": "a", "lora_path": "b"})).0, 403);
}

#[test]
fn what_cannot_be_answered_says_why() {
    let keys = Keys::parse(r#"[{"key": "0123456789abcdef", "name": "test"}]"#).unwrap();
    let server = start(1, Some(keys));
    let key = "Authorization: Bearer 0123456789abcdef\r\n";
    let ask = |path: &str, body: Json| {
        let (status, head, text) = server.ask("POST", path, key, &body.to_string());
        (status, head, serde_json::from_str::<Json>(&text).unwrap()["error"].clone())
    };
    assert_eq!(server.ask("GET", "/v1/models", "", "").0, 401);
    assert_eq!(server.ask("GET", "/v1/models", key, "").0, 200);
    assert_eq!(server.ask("GET", "/health", "", "").0, 200);
    let (status, _, e) = ask("/v1/completions", json!({"model": "other", "prompt": "a"}));
    assert_eq!((status, &e["code"]), (404, &json!("model_not_found")));
    for (body, param) in [
        (json!({"prompt": "a", "temperature": "hot"}), "temperature"),
        (json!({"prompt": []}), "prompt"),
        (json!({"prompt": "a", "n": 1000}), "n"),
        (json!({"prompt": "a", "stop": 3}), "stop"),
        (json!({"prompt": vec![1; 500]}), "messages"),
    ] {
        let (status, _, e) = ask("/v1/completions", body);
        assert_eq!((status, &e["param"], &e["type"]), (400, &json!(param), &json!("invalid_request_error")));
    }
    assert_eq!(ask("/v1/chat/completions", json!({"messages": []})).0, 400);
    assert_eq!(ask("/v1/completions", json!({"prompt": "a", "top_p": 2.0})).0, 400);
    // One request is as many as this server takes.
    let (status, head, e) = ask("/v1/completions", json!({"prompt": "a", "n": 2, "max_tokens": 100}));
    assert_eq!((status, &e["type"]), (429, &json!("rate_limit_error")));
    assert!(head.contains("retry-after: 1"));
    assert_eq!(server.ask("POST", "/v1/completions", key, "{").0, 400);
    assert_eq!(server.ask("GET", "/nothing", key, "").0, 404);
}

#[test]
fn clients_that_go_away_free_their_kv() {
    let server = start(64, None);
    for i in 0..40 {
        let body = json!({"prompt": format!("{i} goes away"), "max_tokens": 110, "stream": true, "ignore_eos": true});
        let mut s = server.open("POST", "/v1/completions", "", &body.to_string());
        if i % 2 == 0 {
            let mut some = [0; 64];
            s.read_exact(&mut some).unwrap();
        }
        drop(s);
    }
    let begun = std::time::Instant::now();
    while server.api.handle().unwrap().open() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} are open", server.api.handle().unwrap().open());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.metric("vllm:kv_cache_usage_perc"), 0.0);
}

/// What a request says and the server does not do is refused, not passed over.
#[test]
fn parameters_that_would_be_ignored_are_refused() {
    let server = start(16, None);
    let messages = json!([{"role": "user", "content": "hi"}]);
    let chat = |more: Json| {
        let mut body = json!({"messages": messages, "max_tokens": 2});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("/v1/chat/completions", body)
    };
    let complete = |more: Json| {
        let mut body = json!({"prompt": "a", "max_tokens": 2});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("/v1/completions", body)
    };
    for ((path, body), param) in [
        (chat(json!({"functions": [{"name": "f"}]})), "functions"),
        (chat(json!({"reasoning_effort": "high"})), "reasoning_effort"),
        (chat(json!({"top_logprobs": 2})), "top_logprobs"),
        (chat(json!({"stream_options": {"include_usage": true}})), "stream_options"),
        (chat(json!({"stream": true, "stream_options": {"continuous_usage_stats": true}})), "continuous_usage_stats"),
        (chat(json!({"continue_final_message": true})), "continue_final_message"),
        (chat(json!({"chat_template_kwargs": 1})), "chat_template_kwargs"),
        (chat(json!({"echo": true})), "echo"),
        (chat(json!({"modalities": ["audio"]})), "modalities"),
        (chat(json!({"model": 7})), "model"),
        (complete(json!({"n": 0})), "n"),
        (complete(json!({"top_k": "few"})), "top_k"),
        (complete(json!({"top_k": -2})), "top_k"),
        (complete(json!({"logit_bias": [1]})), "logit_bias"),
        (complete(json!({"priority": "high"})), "priority"),
        (complete(json!({"cache_salt": 3})), "cache_salt"),
        (complete(json!({"min_tokens": 3})), "min_tokens"),
        (complete(json!({"prompt_logprobs": 1})), "prompt_logprobs"),
        (complete(json!({"no_such_thing": 1})), "no_such_thing"),
        (("/v1/embeddings", json!({"input": "a", "truncate_prompt_tokens": 4})), "truncate_prompt_tokens"),
        (("/v1/responses", json!({"input": "a", "truncation": "auto"})), "truncation"),
        (("/v1/responses", json!({"input": "a", "instructions": ["b"]})), "instructions"),
        (("/v1/responses", json!({"input": "a", "text": {"verbosity": "low"}})), "verbosity"),
        (("/v1/responses", json!({"input": "a", "max_tokens": 3})), "max_tokens"),
        (("/v1/responses", json!({"input": "a", "background": true})), "background"),
        (("/tokenize", json!({"prompt": "a", "add_special_token": true})), "add_special_token"),
    ] {
        let (status, answer) = server.post(path, body);
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{path}: {answer}");
    }
    // What changes no answer, and what states what is done anyway.
    let usual = json!({"user": "u", "metadata": {"a": "b"}, "store": false, "service_tier": "auto", "echo": false,
        "modalities": ["text"], "add_generation_prompt": true, "functions": null, "top_k": -1, "n": 1,
        "stream_options": null, "parallel_tool_calls": true});
    let (path, body) = chat(usual);
    let (status, answer) = server.post(path, body);
    assert_eq!(status, 200, "{answer}");
    let plain =
        json!({"input": "a", "truncation": "disabled", "include": [], "background": false, "max_output_tokens": 2});
    let (status, answer) = server.post("/v1/responses", plain);
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn texts_and_conversations_are_tokenized_as_asked() {
    let server = start(4, None);
    let (_, plain) = server.post("/tokenize", json!({"prompt": "ab", "return_token_strs": true}));
    assert_eq!((&plain["tokens"], &plain["token_strs"]), (&json!([97, 98]), &json!(["a", "b"])));
    assert_eq!(server.post("/tokenize", json!({"prompt": "ab", "model": "tiny"})).1["token_strs"], Json::Null);
    let messages = json!([{"role": "user", "content": "hi"}]);
    let (_, whole) = server.post("/tokenize", json!({"messages": messages}));
    let (_, without) = server.post("/tokenize", json!({"messages": messages, "add_generation_prompt": false}));
    let count = |r: &Json| r["count"].as_u64().unwrap();
    // The mark of a turn is one token, each letter another.
    assert_eq!(count(&whole), count(&without) + 1 + "assistant\n".len() as u64);
    assert_eq!(server.post("/detokenize", json!({"tokens": [97, 98]})).1["prompt"], "ab");
    assert_eq!(server.post("/tokenize", json!({"prompt": "ab", "model": "other"})).0, 404);
}

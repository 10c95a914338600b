//! The engine with a small model: the tokens of the model without a cache, alone and in any company.

use cpu as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use talweg_llm::engine::{Engine, Event, Generation, Handle, Options, Reason, Refused, Usage};
use talweg_llm::gguf::Format;
use talweg_llm::models::attend::Sequences;
use talweg_llm::{LanguageModel, Sampling};
use tensor::Tensor;

mod tiny;
use tiny::Random;

fn options() -> Options {
    Options {
        tokens_max: 16,
        sequences_max: 4,
        chunk_max: 16,
        block_tokens: 4,
        cache_dtype: ir::DType::F32,
        ..Options::default()
    }
}

fn greedy(prompt: &[u32], tokens: usize) -> Generation {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    Generation {
        prompt: prompt.to_vec(),
        tokens_max: Some(tokens),
        sampling,
        ignores_eos: true,
        ..Generation::default()
    }
}

/// Adds a request; its events.
fn add(engine: &mut Engine, g: Generation) -> Receiver<Event> {
    let (to, from) = channel();
    engine.add(g, Box::new(move |e| to.send(e).is_ok())).unwrap();
    from
}

/// The tokens of a request, and how it ended.
fn result(from: &Receiver<Event>) -> (Vec<u32>, String, Reason, Usage) {
    let (mut tokens, mut all) = (Vec::new(), String::new());
    for event in from.try_iter() {
        match event {
            Event::Token { token, text, .. } => {
                tokens.push(token);
                all += &text;
            }
            Event::Done { reason, text, usage } => return (tokens, all + &text, reason, usage),
            Event::Failed(e) => panic!("{e}"),
            Event::Refused => panic!("a request without a deadline was refused"),
        }
    }
    panic!("a request did not end");
}

fn run(engine: &mut Engine) {
    for _ in 0..10_000 {
        engine.scheduler().check();
        if !engine.step().unwrap() && engine.is_idle() {
            return;
        }
    }
    panic!("the engine does not end");
}

/// Greedy tokens without a cache: the whole text anew for each token.
fn plain(model: &LanguageModel, prompt: &[u32], tokens: usize) -> Vec<u32> {
    let mut all = prompt.to_vec();
    for _ in 0..tokens {
        let ids: Vec<i32> = all.iter().map(|t| *t as i32).collect();
        let positions: Vec<i32> = (0..ids.len() as i32).collect();
        let attend = Sequences { count: 1, length: ids.len() };
        let hidden = model.decoder.hidden(&Tensor::from(&ids[..]), &Tensor::from(&positions[..]), &attend).unwrap();
        let z = model.decoder.logits(&hidden.narrow(0, ids.len() - 1, 1)).to_vec::<f32>().unwrap();
        let best = (0..z.len()).max_by(|a, b| z[*a].total_cmp(&z[*b])).unwrap();
        all.push(best as u32);
    }
    all[prompt.len()..].to_vec()
}

#[test]
fn pages_give_what_whole_sequences_give() {
    for format in [Format::F32, Format::Q8_0] {
        let model = tiny::load(format);
        let prompt = model.tokenizer.encode("A stitch in time saves nine").unwrap();
        let mut engine = Engine::new(model.clone(), options()).unwrap();
        let from = add(&mut engine, greedy(&prompt, 12));
        run(&mut engine);
        let (tokens, _, reason, usage) = result(&from);
        assert_eq!(tokens, plain(&model, &prompt, 12), "{}", format.name());
        assert_eq!((reason, usage), (Reason::Length, Usage { prompt: 27, cached: 0, generated: 12 }));
        assert_eq!(engine.scheduler().pool().usage(), 0.0);
        // Lengths do not matter: 16 and 11 tokens of the prompt, then one at a time.
        assert_eq!(engine.programs(), 2);
    }
}

/// A request drawn from a seed; many share the beginnings of their prompts.
fn random_request(random: &mut Random) -> Generation {
    let shared = random.below(12);
    let own = 1 + random.below(20);
    let prompt = (0..shared as u32).chain((0..own).map(|_| random.below(258) as u32)).collect();
    let sampling = Sampling {
        temperature: [0.0, 0.8, 1.3][random.below(3)],
        top_k: [0, 5][random.below(2)],
        top_p: [1.0, 0.9][random.below(2)],
        repetition_penalty: [1.0, 1.2][random.below(2)],
        seed: random.bits(),
        logprobs: random.below(3),
        ..Sampling::default()
    };
    let tokens_max = Some(1 + random.below(10));
    let draft = random.below(3);
    Generation { draft, prompt, tokens_max, sampling, priority: random.below(3) as i32, ..Generation::default() }
}

/// Every event of a request, to the bit of its log probabilities, alone and in companies with preemption, sharing and
/// cancellation. `TALWEG_COMPANIES` says how many, where 1,000 (200 in a slow build) are not right.
fn companies(format: Format, cache_dtype: ir::DType) {
    let rounds = std::env::var("TALWEG_COMPANIES").ok().and_then(|n| n.parse().ok());
    let rounds = rounds.unwrap_or(if cfg!(debug_assertions) { 200 } else { 1000 });
    let options = || Options { cache_dtype, ..options() };
    let model = tiny::load(format);
    let mut random = Random(77);
    let requests: Vec<Generation> = (0..24).map(|_| random_request(&mut random)).collect();
    let events = |from: &Receiver<Event>| -> Vec<String> {
        let of = |e: Event| match e {
            Event::Token { token, text, logprob, top } => format!("{token} {text:?} {:08x} {top:?}", logprob.to_bits()),
            Event::Done { reason, text, usage } => format!("{reason:?} {text:?} {}", usage.generated),
            Event::Failed(e) => e,
            Event::Refused => "refused".to_string(),
        };
        from.try_iter().map(of).collect()
    };
    let mut alone = Vec::new();
    for r in &requests {
        let mut engine = Engine::new(model.clone(), options()).unwrap();
        let from = add(&mut engine, Generation { draft: 0, ..r.clone() });
        run(&mut engine);
        alone.push(events(&from));
    }
    // Room for little more than one sequence at its longest. How prompts are chunked follows the clock, so the number
    // of preemptions differs between runs: about 30.
    let width = tiny::HIDDEN / tiny::HEADS + if cache_dtype == ir::DType::I8 { 4 } else { 0 };
    let token = 2 * tiny::LAYERS * tiny::KV_HEADS * width * cache_dtype.size();
    let tight = Options { cache_bytes: token * 4 * 14, ..options() };
    let mut engine = Engine::new(model, tight).unwrap();
    for round in 0..rounds {
        let company: Vec<usize> = (0..2 + random.below(6)).map(|_| random.below(requests.len())).collect();
        let mut open = Vec::new();
        for i in company {
            let from = add(&mut engine, requests[i].clone());
            open.push((i, from));
            for _ in 0..random.below(3) {
                engine.step().unwrap();
            }
        }
        // One goes away.
        let (gone, from) = open.swap_remove(random.below(open.len()));
        drop(from);
        run(&mut engine);
        for (i, from) in open {
            assert_eq!(events(&from), alone[i], "round {round}, request {i}, beside {gone}");
        }
        assert_eq!(engine.scheduler().pool().usage(), 0.0);
    }
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    let (preempted, hits) = (count(&engine.stats().preemptions), count(&engine.stats().prefix_hits));
    assert!(preempted > 0 && hits > 0, "{preempted} preemptions, {hits} shared tokens");
}

#[test]
fn company_changes_no_bit_of_quantized_models() {
    companies(Format::Q8_0, ir::DType::F32);
}

#[test]
fn company_changes_no_bit_of_dense_models() {
    companies(Format::F32, ir::DType::F16);
    companies(Format::BF16, ir::DType::I8);
}

/// Steps that begin before the tokens of the last are known give the same tokens and ends, with sequences that end,
/// arrive, go away and are preempted meanwhile.
#[test]
fn steps_that_begin_early_change_no_token() {
    let model = tiny::load(Format::F32);
    let mut random = Random(5);
    let mut request = || {
        let prompt: Vec<u32> = (0..1 + random.below(24)).map(|_| random.below(258) as u32).collect();
        greedy(&prompt, 1 + random.below(30))
    };
    let requests: Vec<Generation> = (0..16).map(|_| request()).collect();
    let mut alone = Vec::new();
    for r in &requests {
        let mut engine = Engine::new(model.clone(), Options { looks_ahead: Some(false), ..options() }).unwrap();
        let from = add(&mut engine, r.clone());
        run(&mut engine);
        // A token that comes later ends it as well.
        let (tokens, ..) = result(&from);
        let stop_tokens = tokens.get(tokens.len() / 2).copied().into_iter().collect();
        let r = Generation { stop_tokens, ..r.clone() };
        let from = add(&mut engine, r.clone());
        run(&mut engine);
        let (tokens, text, reason, usage) = result(&from);
        alone.push((r, (tokens, text, reason, usage.generated)));
    }
    let token = 2 * tiny::LAYERS * tiny::KV_HEADS * tiny::HIDDEN / tiny::HEADS * 4;
    let tight = Options { cache_bytes: token * 4 * 30, looks_ahead: Some(true), ..options() };
    let mut engine = Engine::new(model, tight).unwrap();
    let mut early = 0;
    for round in 0..30 {
        let mut open = Vec::new();
        for _ in 0..2 + random.below(5) {
            let i = random.below(alone.len());
            open.push((i, add(&mut engine, alone[i].0.clone())));
            for _ in 0..random.below(6) {
                engine.step().unwrap();
                engine.scheduler().check();
                early += usize::from(engine.is_ahead());
            }
        }
        drop(open.swap_remove(random.below(open.len())));
        run(&mut engine);
        for (i, from) in open {
            let (tokens, text, reason, usage) = result(&from);
            assert_eq!((tokens, text, reason, usage.generated), alone[i].1, "round {round}, request {i}");
        }
        assert_eq!(engine.scheduler().pool().usage(), 0.0);
    }
    assert!(early > 30, "only {early} steps began early");
}

/// Log probabilities with a KV cache of few bits are near those of 32.
#[test]
fn caches_of_few_bits_change_little() {
    let model = tiny::load(Format::F32);
    let prompt = model.tokenizer.encode("A stitch in time saves nine").unwrap();
    let logprobs = |cache_dtype: ir::DType| {
        let mut engine = Engine::new(model.clone(), Options { cache_dtype, ..options() }).unwrap();
        // A bias makes all of them say the same.
        let mut g = greedy(&prompt, 12);
        g.sampling.logit_bias = vec![(97, 1000.0)];
        let from = add(&mut engine, g);
        run(&mut engine);
        let logprob = |e: Event| if let Event::Token { logprob, .. } = e { Some(logprob) } else { None };
        from.try_iter().filter_map(logprob).collect::<Vec<f32>>()
    };
    let exact = logprobs(ir::DType::F32);
    assert_eq!(exact.len(), 12);
    for (dtype, most) in
        [(ir::DType::F16, 2e-3), (ir::DType::BF16, 2e-2), (ir::DType::I8, 4e-2), (ir::DType::F8E4M3, 0.2)]
    {
        let off = logprobs(dtype).iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off > 0.0 && off < most, "{dtype}: {off}");
    }
}

#[test]
fn texts_end_at_stops_and_lengths() {
    let model = tiny::load(Format::F32);
    let prompt = model.tokenizer.encode("ab").unwrap();
    let mut engine = Engine::new(model.clone(), options()).unwrap();
    let from = add(&mut engine, greedy(&prompt, 8));
    run(&mut engine);
    let (tokens, ..) = result(&from);
    // The third token ends the next text, as a stop token and as one of the model's.
    let third = Generation { stop_tokens: vec![tokens[2]], ..greedy(&prompt, 8) };
    let from = add(&mut engine, third.clone());
    let late = add(&mut engine, Generation { tokens_min: 8, ..third });
    let none = add(&mut engine, Generation { timeout: Some(std::time::Duration::ZERO), ..greedy(&prompt, 8) });
    run(&mut engine);
    let (short, _, reason, usage) = result(&from);
    let first = tokens.iter().position(|t| *t == tokens[2]).unwrap() + 1;
    assert_eq!((&short[..], reason, usage.generated), (&tokens[..first], Reason::Stop, first));
    assert_eq!((result(&late).0.len(), result(&none).2), (8, Reason::Aborted));
    assert!(engine.add(greedy(&[300], 1), Box::new(|_| true)).unwrap_err().message.contains("token 300"));
    assert!(engine.add(greedy(&[1; 200], 1), Box::new(|_| true)).unwrap_err().message.contains("at most 127 fit"));
}

#[test]
fn a_thread_serves_streams_and_refuses_too_many() {
    let model = tiny::load(Format::F32);
    let prompt = model.tokenizer.encode("hello").unwrap();
    let want = plain(&model, &prompt, 5);
    let handle = Arc::new(Handle::start(model, options(), 2).unwrap());
    let tokens = |events: talweg_llm::engine::Events| -> Vec<u32> {
        events.filter_map(|e| if let Event::Token { token, .. } = e { Some(token) } else { None }).collect()
    };
    let both = [handle.generate(greedy(&prompt, 5)).unwrap(), handle.generate(greedy(&prompt, 5)).unwrap()];
    let refused = handle.submit(greedy(&prompt, 5), Box::new(|_| true)).err();
    // The first two may have ended already.
    assert!(refused.is_none() || refused == Some(Refused::Overloaded));
    for events in both {
        assert_eq!(tokens(events), want);
    }
    // A client that goes away.
    let mut events = handle.generate(greedy(&prompt, 100)).unwrap();
    events.next().unwrap();
    drop(events);
    let mut failed = handle.generate(greedy(&[], 1)).unwrap();
    assert!(matches!(failed.next(), Some(Event::Failed(e)) if e.contains("no token")));
    while handle.open() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(tokens(handle.generate(greedy(&prompt, 5)).unwrap()), want);
}

#[test]
fn drafts_change_no_token_and_save_steps() {
    let model = tiny::load(Format::F32);
    let prompt = model.tokenizer.encode("abcabcabcabc").unwrap();
    let steps = |draft: usize| {
        let mut engine = Engine::new(model.clone(), options()).unwrap();
        // A bias makes the text repeat itself.
        let mut g = Generation { draft, ..greedy(&prompt, 40) };
        g.sampling.logit_bias = vec![(97, 60.0)];
        let from = add(&mut engine, g);
        let mut n = 0;
        while !engine.is_idle() {
            engine.step().unwrap();
            n += 1;
        }
        (result(&from).0, n, engine.stats().accepted_tokens.load(std::sync::atomic::Ordering::Relaxed))
    };
    let (plain, drafted) = (steps(0), steps(4));
    assert_eq!(plain.0, drafted.0);
    assert!(plain.2 == 0 && drafted.2 > 20 && drafted.1 < plain.1 / 2, "{plain:?} {drafted:?}");
}

#[test]
fn conversations_become_prompts() {
    let model = tiny::load(Format::F32);
    let messages = serde_json::json!([{"role": "user", "content": "hi"}]);
    let prompt = model.chat_prompt(&messages, None, &serde_json::Value::Null).unwrap();
    assert_eq!(prompt, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    let tokens = model.tokenizer.encode(&prompt).unwrap();
    assert_eq!((tokens[0], tokens.iter().filter(|t| **t == 257).count()), (256, 1));
    assert_eq!(model.tokenizer.decode(&tokens), "user\nhi\nassistant\n");
}

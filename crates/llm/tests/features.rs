//! What requests can ask for beyond plain sampling: forms of text, drafts by another model, beams, adapters.

use cpu as _;
use std::path::Path;
use std::sync::Arc;
use talweg_llm::engine::{Engine, Event, Generation, Handle, Options, Reason};
use talweg_llm::finetune::{Example, Finetune, FinetuneOptions, Preference};
use talweg_llm::gguf::Format;
use talweg_llm::{BeamOptions, Constraint, Evaluator, LanguageModel, LoraOptions, Sampling, beam_search};

mod tiny;

fn options() -> Options {
    Options { tokens_max: 32, sequences_max: 4, chunk_max: 32, block_tokens: 4, ..Options::default() }
}

fn request(model: &LanguageModel, prompt: &str, tokens: usize, temperature: f32) -> Generation {
    let prompt = model.tokenizer.encode(prompt).unwrap();
    let sampling = Sampling { temperature, seed: 7, ..Sampling::default() };
    Generation { prompt, tokens_max: Some(tokens), sampling, ..Generation::default() }
}

/// The text, the tokens and the end of a request.
fn result(handle: &Handle, g: Generation) -> (String, Vec<u32>, Reason) {
    collect(handle.generate(g).unwrap())
}
fn collect(events: impl Iterator<Item = Event>) -> (String, Vec<u32>, Reason) {
    let (mut all, mut tokens) = (String::new(), Vec::new());
    for event in events {
        match event {
            Event::Token { token, text, .. } => {
                all += &text;
                tokens.push(token);
            }
            Event::Done { reason, text, .. } => return (all + &text, tokens, reason),
            Event::Failed(e) => panic!("{e}"),
            Event::Refused => panic!("a request without a deadline was refused"),
        }
    }
    panic!("the engine ended");
}

#[test]
fn texts_have_the_form_that_is_asked_for() {
    let model = tiny::load(Format::F32);
    let handle = Handle::start(model.clone(), options(), 64).unwrap();
    let ask = |c: &Constraint, seed: u64, draft: usize| {
        let mut g = request(&model, "say", 100, 1.0);
        (g.sampling.seed, g.draft, g.guide) = (seed, draft, Some(model.guide(c).unwrap()));
        result(&handle, g)
    };
    let schema = serde_json::json!({
        "type": "object", "additionalProperties": false, "required": ["n", "of"],
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}, "of": {"$ref": "#/$defs/word"}},
        "$defs": {"word": {"enum": ["ab", "cd"]}},
    });
    let gbnf = "root ::= \"<\" digit{2,3} \">\"\ndigit ::= [0-9]\n";
    for seed in 0..4 {
        let (text, _, reason) = ask(&Constraint::Json(schema.clone()), seed, 0);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
        assert!(reason == Reason::Stop && json["n"].is_u64() && ["ab", "cd"].contains(&json["of"].as_str().unwrap()));
        let (text, ..) = ask(&Constraint::Regex("[xyz]{3}-[0-9]+;".into()), seed, 0);
        assert!(text.len() >= 6 && text.ends_with(';') && text.as_bytes()[3] == b'-', "{text:?}");
        let choices = ["yes", "no", "né \"it\""].map(String::from).to_vec();
        let (text, ..) = ask(&Constraint::Choice(choices.clone()), seed, 0);
        assert!(choices.contains(&text), "{text:?}");
        let grammar = Constraint::Grammar(gbnf.into());
        let plain = ask(&grammar, seed, 0);
        assert!(plain.0.starts_with('<') && plain.0.ends_with('>') && matches!(plain.0.len(), 4 | 5), "{:?}", plain.0);
        assert_eq!(ask(&grammar, seed, 4), plain, "drafts change nothing");
    }
    // Several at once, in company of a plain one.
    let mut open: Vec<_> = (0..3)
        .map(|seed| {
            let mut g = request(&model, "say", 40, 1.0);
            (g.sampling.seed, g.guide) = (seed, Some(model.guide(&Constraint::Regex("(ab|ba){4}".into())).unwrap()));
            handle.generate(g).unwrap()
        })
        .collect();
    let plain = handle.generate(Generation { ignores_eos: true, ..request(&model, "say", 12, 1.0) }).unwrap();
    for events in open.drain(..) {
        assert_eq!(collect(events).0.len(), 8);
    }
    assert_eq!(collect(plain).1.len(), 12);
    let bad = model.guide(&Constraint::Regex("(".into())).unwrap_err().message;
    assert!(bad.contains("constraint"), "{bad}");
    assert!(model.guide(&Constraint::Grammar("start: missing".into())).is_err());
    let both = Generation {
        ignores_eos: true,
        guide: model.guide(&Constraint::Regex("a".into())).ok(),
        ..request(&model, "a", 2, 0.0)
    };
    assert!(matches!(handle.generate(both).unwrap().next(), Some(Event::Failed(e)) if e.contains("ignore_eos")));
}

#[test]
fn a_draft_model_changes_no_token() {
    // The draft is the same model with other numbers: many of its guesses are right, some are not.
    let (model, draft) = (tiny::load(Format::F32), tiny::load(Format::Q8_0));
    let run = |drafts: usize, temperature: f32| {
        let mut engine = Engine::new(model.clone(), options()).unwrap();
        engine.set_draft_model(draft.clone(), options()).unwrap();
        let stats = engine.stats().clone();
        let handle = Handle::of(engine, 16).unwrap();
        let open: Vec<_> = ["one", "two two", "three"]
            .map(|p| Generation { draft: drafts, ignores_eos: true, ..request(&model, p, 24, temperature) })
            .map(|g| handle.generate(g).unwrap())
            .into_iter()
            .collect();
        let tokens: Vec<Vec<u32>> = open.into_iter().map(|e| collect(e).1).collect();
        (tokens, stats.accepted_tokens.load(std::sync::atomic::Ordering::Relaxed))
    };
    for temperature in [0.0, 0.9] {
        let (plain, drafted) = (run(0, temperature), run(4, temperature));
        assert_eq!(plain.0, drafted.0);
        assert!(plain.1 == 0 && (temperature > 0.0 || drafted.1 > 30), "{} accepted", drafted.1);
    }
}

#[test]
fn beams_find_likelier_texts() {
    let model = tiny::load(Format::F32);
    let exact = Options { cache_dtype: ir::DType::F32, ..options() };
    let handle = Handle::start(model.clone(), exact, 64).unwrap();
    let prompt = model.tokenizer.encode("beam").unwrap();
    let search = |width: usize| {
        let o = BeamOptions { width, tokens_max: 6, ignores_eos: true, ..BeamOptions::default() };
        beam_search(&handle, &prompt, &o).unwrap()
    };
    let greedy = result(&handle, Generation { ignores_eos: true, ..request(&model, "beam", 6, 0.0) }).1;
    assert_eq!(search(1)[0].tokens, greedy);
    let found = search(4);
    assert!(found.len() == 4 && found.windows(2).all(|w| w[0].score >= w[1].score));
    assert!(found[0].logprob >= search(1)[0].logprob);
    let scores = Evaluator::new(model.decoder.clone()).scores(&[&prompt[..], &found[0].tokens].concat()).unwrap();
    let sum: f64 = scores[prompt.len() - 1..].iter().map(|s| s.logprob as f64).sum();
    assert!((sum - found[0].logprob).abs() < 1e-3, "{sum} is not {}", found[0].logprob);
    assert_eq!(handle.stats().usage.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// An adapter that learned to repeat a letter.
fn adapter(path: &Path, folder: &Path, letter: &str, targets: &[&str]) {
    let mut model = LanguageModel::load(path).unwrap();
    let targets = targets.iter().map(|t| t.to_string()).collect();
    let options = LoraOptions { rank: 4, alpha: 8.0, targets };
    let variables = model.add_lora(&options).unwrap();
    let tokens = model.tokenizer.encode(&letter.repeat(64)).unwrap();
    let settings = FinetuneOptions { steps: 25, batch: 2, length: 16, lr: 2e-2, seed: 1 };
    let mut run = Finetune::new(&model, variables, &[Example { tokens, is_target: vec![] }], settings).unwrap();
    for _ in 0..25 {
        run.step().unwrap();
    }
    drop(run);
    model.save_lora(folder, &options).unwrap();
}

#[test]
fn requests_of_one_batch_use_different_adapters() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny::file(&folder, Format::Q8_0);
    let [x, y] = ["x", "y"].map(|n| folder.path().join(n));
    adapter(&path, &x, "x", &["q_proj", "v_proj"]);
    adapter(&path, &y, "y", &["v_proj", "o_proj"]);
    let alone = |lora: Option<&Path>| {
        let mut model = LanguageModel::load(&path).unwrap();
        lora.iter().for_each(|l| drop(model.load_lora(l).unwrap()));
        let handle = Handle::start(Arc::new(model), options(), 4).unwrap();
        let g = request(handle.model(), "abcdefgh", 12, 0.0);
        result(&handle, Generation { ignores_eos: true, ..g }).1
    };
    let want = [alone(None), alone(Some(&x)), alone(Some(&y))];
    assert!(want[0] != want[1] && want[1] != want[2]);
    let mut model = LanguageModel::load(&path).unwrap();
    model.make_room_for(&[&x, &y], None, None).unwrap();
    let mut engine = Engine::new(Arc::new(model), options()).unwrap();
    engine.load_adapter("x", &x).unwrap();
    engine.load_adapter("y", &y).unwrap();
    assert!(engine.load_adapter("z", &y).unwrap_err().message.contains("slots"));
    let handle = Handle::of(engine, 16).unwrap();
    let ask = |name: Option<&str>| {
        let g = request(handle.model(), "abcdefgh", 12, 0.0);
        handle.generate(Generation { ignores_eos: true, adapter: name.map(String::from), ..g }).unwrap()
    };
    for _ in 0..2 {
        let open = [None, Some("x"), Some("y")].map(&ask);
        assert_eq!(open.map(|events| collect(events).1), want, "the KV of one is not used for another");
    }
    // A slot is used again.
    handle.between_steps(|e| e.unload_adapter("x")).unwrap();
    assert!(matches!(ask(Some("x")).next(), Some(Event::Failed(e)) if e.contains("no adapter")));
    let folder = y.clone();
    handle.between_steps(move |e| e.load_adapter("x", &folder)).unwrap();
    assert_eq!(collect(ask(Some("x"))).1, want[2]);
}

#[test]
fn documents_of_a_row_do_not_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny::file(&folder, Format::F32);
    // The loss of two texts in one row is the mean of their losses in rows of their own.
    let loss = |texts: &[&str], checkpoints: bool| {
        let mut model = LanguageModel::load(&path).unwrap();
        tensor::manual_seed(1);
        let variables = model.add_lora(&LoraOptions { rank: 2, ..LoraOptions::default() }).unwrap();
        model.set_checkpoints(checkpoints).unwrap();
        let example = |t: &&str| Example { tokens: model.tokenizer.encode(t).unwrap(), is_target: vec![] };
        let examples: Vec<Example> = texts.iter().map(example).collect();
        let settings = FinetuneOptions { steps: 2, batch: 1, length: 32, lr: 1e-2, seed: 0 };
        let mut run = Finetune::new(&model, variables, &examples, settings).unwrap();
        [run.step().unwrap().0, run.step().unwrap().0]
    };
    let (a, b) = ("the first text", "another one, longer");
    let (both, alone) = (loss(&[a, b], false), [loss(&[a], false)[0], loss(&[b], false)[0]]);
    let (n, m) = ((a.len() - 1) as f64, (b.len() - 1) as f64);
    assert!((both[0] - (alone[0] * n + alone[1] * m) / (n + m)).abs() < 1e-4, "{both:?} of {alone:?}");
    let again = loss(&[a, b], true);
    assert!((again[0] - both[0]).abs() < 1e-5 && (again[1] - both[1]).abs() < 1e-3, "{again:?} is not {both:?}");
    assert!(both[1] < both[0]);
}

#[test]
fn preferences_are_learned() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = LanguageModel::load(tiny::file(&folder, Format::Q8_0)).unwrap();
    let variables = model.add_lora(&LoraOptions { rank: 4, ..LoraOptions::default() }).unwrap();
    let answer = |text: &str| {
        let tokens = model.tokenizer.encode(&format!("say {text}")).unwrap();
        let is_target = (0..tokens.len()).map(|i| i >= 4).collect();
        Example { tokens, is_target }
    };
    let pairs = [
        Preference { chosen: answer("good"), rejected: answer("bad") },
        Preference { chosen: answer("yes"), rejected: answer("nope") },
    ];
    let settings = FinetuneOptions { steps: 20, batch: 2, length: 16, lr: 1e-2, seed: 0 };
    let mut run = Finetune::preferences(&model, variables, &pairs, 0.5, settings).unwrap();
    let steps: Vec<(f64, Option<f64>)> = (0..20).map(|_| run.step().unwrap()).collect();
    // At first the model is the one it is compared with: −log σ(0).
    assert!((steps[0].0 - 2f64.ln()).abs() < 1e-5, "{steps:?}");
    assert!(steps[19].0 < 0.3 && steps[19].1 == Some(1.0), "{steps:?}");
}

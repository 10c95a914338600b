//! Language models: loading, generation, evaluation.

use crate::error::{OrRaise, value_error};
use ::llm::engine::{Engine, Event, Events, Generation, Handle, Options};
use ::llm::finetune::FinetuneOptions;
use ::llm::{BeamOptions, Constraint, Encoder, Evaluator, LanguageModel, LoraOptions, Sampling, beam_search};
use ::llm::{Trained, Training, TrainingOptions};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A language model with an engine that serves it.
#[pyclass(name = "LanguageModel", module = "talweg.llm", frozen)]
struct PyLanguageModel {
    handle: Handle,
    evaluator: Evaluator,
}

/// The events of a request: token, text, log probability and likeliest tokens; at the end reason, rest of the text and
/// counts of tokens.
#[pyclass(name = "Events", module = "talweg.llm", frozen)]
struct PyEvents(Mutex<Option<Events>>);

#[pymethods]
impl PyLanguageModel {
    /// Opens a GGUF file or a folder.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        lora: Option<PathBuf>,
        sequences: usize,
        length: usize,
        cache_bytes: usize,
        draft: Option<PathBuf>,
    ) -> PyResult<PyLanguageModel> {
        let open = || {
            let mut model = LanguageModel::load(&path)?;
            if let Some(folder) = lora {
                model.load_lora(folder)?;
            }
            model.set_rope_length(length)?;
            let evaluator = Evaluator::new(model.decoder.clone());
            let options =
                Options { sequences_max: sequences.max(1), length_max: length, cache_bytes, ..Options::default() };
            let mut engine = Engine::new(Arc::new(model), options)?;
            if let Some(path) = draft {
                let mut draft = LanguageModel::load(path)?;
                draft.set_rope_length(length)?;
                engine.set_draft_model(Arc::new(draft), options)?;
            }
            let handle = Handle::of(engine, usize::MAX)?;
            Ok(PyLanguageModel { handle, evaluator })
        };
        py.detach(open).or_raise(py)
    }
    #[getter]
    fn name(&self) -> &str {
        &self.handle.model().name
    }
    #[getter]
    fn length_max(&self) -> usize {
        self.handle.length_max()
    }
    #[getter]
    fn eos(&self) -> Vec<u32> {
        self.handle.model().tokenizer.eos().to_vec()
    }
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        self.handle.model().tokenizer.encode(text).or_raise(py)
    }
    fn decode(&self, tokens: Vec<u32>) -> String {
        self.handle.model().tokenizer.decode(&tokens)
    }
    /// The prompt of messages and tools, both as JSON.
    fn chat_prompt(&self, py: Python<'_>, messages: &str, tools: Option<&str>) -> PyResult<String> {
        let json = |text: &str| serde_json::from_str(text).map_err(|e| value_error(&e.to_string()));
        let tools = tools.map(json).transpose()?;
        self.handle.model().chat_prompt(&json(messages)?, tools.as_ref(), &serde_json::Value::Null).or_raise(py)
    }
    /// What the model's makers recommend: temperature, top_k, top_p, min_p, repetition_penalty.
    #[getter]
    fn sampling(&self) -> (f32, usize, f32, f32, f32) {
        let s = &self.handle.model().sampling;
        (s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty)
    }
    /// Hands a request to the engine.
    #[allow(clippy::too_many_arguments)] // The names are those of the Python method.
    fn submit(
        &self,
        py: Python<'_>,
        prompt: Vec<u32>,
        max_tokens: Option<usize>,
        drawn: (f32, usize, f32, f32, f32),
        penalties: (f32, f32),
        limits: (Vec<(u32, f32)>, Vec<u32>, Vec<String>),
        logprobs: usize,
        seed: u64,
        stop: Vec<String>,
        stop_token_ids: Vec<u32>,
        rules: (bool, usize, i32, usize, bool),
        timeout: Option<f64>,
        constraint: Option<(String, String)>,
    ) -> PyResult<PyEvents> {
        let (temperature, top_k, top_p, min_p, repetition_penalty) = drawn;
        let (presence_penalty, frequency_penalty) = penalties;
        let (ignore_eos, min_tokens, priority, draft, shows_special) = rules;
        let (logit_bias, allowed_tokens, words) = limits;
        let seconds =
            |s| Duration::try_from_secs_f64(s).map_err(|_| value_error(&format!("timeout is {s} s, which is no time")));
        let timeout = timeout.map(seconds).transpose()?;
        let model = self.handle.model();
        let bad_words = model.tokenizer.words(&words).or_raise(py)?;
        let guide = match constraint {
            None => None,
            Some((kind, text)) => {
                let constraint = constraint_of(&kind, text)?;
                Some(py.detach(|| model.guide(&constraint)).or_raise(py)?)
            }
        };
        let sampling = Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            logit_bias,
            allowed_tokens,
            bad_words,
            logprobs,
            seed,
        };
        let generation = Generation {
            prompt,
            tokens_max: max_tokens,
            tokens_min: min_tokens,
            sampling,
            stops: stop,
            stop_tokens: stop_token_ids,
            ignores_eos: ignore_eos,
            priority,
            draft,
            guide,
            shows_special,
            timeout,
            ..Generation::default()
        };
        Ok(PyEvents(Mutex::new(Some(self.handle.generate(generation).or_raise(py)?))))
    }
    /// The best texts that a beam finds: tokens, sum of log probabilities, score, whether an end token ended it.
    fn beam_search(
        &self,
        py: Python<'_>,
        prompt: Vec<u32>,
        width: usize,
        tokens_max: usize,
        length_penalty: f64,
        ignores_eos: bool,
    ) -> PyResult<Vec<(Vec<u32>, f64, f64, bool)>> {
        let options = BeamOptions { width, tokens_max, length_penalty, ignores_eos };
        let beams = py.detach(|| beam_search(&self.handle, &prompt, &options)).or_raise(py)?;
        Ok(beams.into_iter().map(|b| (b.tokens, b.logprob, b.score, b.is_ended)).collect())
    }
    /// The log probability of each token after the first.
    fn logprobs(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<Vec<f32>> {
        let scores = py.detach(|| self.evaluator.scores(&tokens)).or_raise(py)?;
        Ok(scores.into_iter().map(|s| s.logprob).collect())
    }
    /// The perplexity of tokens in windows.
    fn perplexity(&self, py: Python<'_>, tokens: Vec<u32>, length: usize) -> PyResult<f64> {
        let first = self.handle.model().tokenizer.first();
        py.detach(|| self.evaluator.perplexity(&tokens, length, first)).or_raise(py)
    }
    /// The embedding of a text.
    fn embedding(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<Vec<f32>> {
        py.detach(|| self.evaluator.embedding(&tokens)).or_raise(py)
    }
}

fn constraint_of(kind: &str, text: String) -> PyResult<Constraint> {
    let json = |text: &str| serde_json::from_str(text).map_err(|e| value_error(&e.to_string()));
    Ok(match kind {
        "json" => Constraint::Json(json(&text)?),
        "regex" => Constraint::Regex(text),
        "grammar" => Constraint::Grammar(text),
        _ => {
            let all = json(&text)?;
            let texts = all.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_string));
            Constraint::Choice(texts.collect())
        }
    })
}

/// An encoder: texts to embeddings.
#[pyclass(name = "Encoder", module = "talweg.llm", frozen)]
struct PyEncoder(Encoder);

#[pymethods]
impl PyEncoder {
    /// Opens a folder.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<PyEncoder> {
        py.detach(|| Encoder::load(path)).or_raise(py).map(PyEncoder)
    }
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }
    #[getter]
    fn length_max(&self) -> usize {
        self.0.length_max()
    }
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        self.0.encode(text).or_raise(py)
    }
    /// Whether it scores pairs of texts.
    #[getter]
    fn is_cross_encoder(&self) -> bool {
        self.0.is_cross_encoder()
    }
    /// The score of each pair of texts, cut to `length` tokens if it is stated.
    fn score(
        &self,
        py: Python<'_>,
        pairs: Vec<(String, String)>,
        length: Option<usize>,
        is_raw: bool,
    ) -> PyResult<Vec<f32>> {
        py.detach(|| self.0.score_texts(&pairs, length, is_raw)).or_raise(py).map(|(scores, _)| scores)
    }
    /// The embedding of each text, of length one.
    fn embed(&self, py: Python<'_>, texts: Vec<Vec<u32>>) -> PyResult<Vec<Vec<f32>>> {
        py.detach(|| self.0.embed(&texts)).or_raise(py)
    }
}

/// A run of fine-tuning.
#[pyclass(name = "Finetune", module = "talweg.llm", frozen)]
struct PyFinetune(Mutex<Training>);

/// What learns: `lora` with rank, alpha and targets, `adapter` with its folder, `full` or `scratch`.
fn trained(kind: &str, lora: (usize, f64, Vec<String>), folder: Option<PathBuf>) -> PyResult<Trained> {
    Ok(match (kind, folder) {
        ("lora", _) => Trained::Lora(LoraOptions { rank: lora.0.max(1), alpha: lora.1, targets: lora.2 }),
        ("adapter", Some(folder)) => Trained::Adapter(folder),
        ("full", _) => Trained::Full,
        ("scratch", _) => Trained::Scratch,
        (other, _) => return Err(value_error(&format!("{other:?} cannot be trained"))),
    })
}

#[pymethods]
impl PyFinetune {
    /// Loads model and data; `settings` are batch, length, learning rate and seed.
    #[new]
    #[allow(clippy::too_many_arguments)] // named by their only caller, `Finetune` in Python
    fn new(
        py: Python<'_>,
        paths: (PathBuf, PathBuf, Option<PathBuf>),
        kind: &str,
        lora: (usize, f64, Vec<String>),
        settings: (usize, usize, f64, u64),
        held_out: f64,
        dpo: Option<f64>,
        checkpoint: bool,
    ) -> PyResult<PyFinetune> {
        let (batch, length, lr, seed) = settings;
        let settings = FinetuneOptions { steps: 0, batch, length, lr, seed };
        let o = TrainingOptions { trained: trained(kind, lora, paths.2)?, settings, held_out, dpo, checkpoint };
        py.detach(|| Training::new(paths.0, paths.1, &o)).or_raise(py).map(|t| PyFinetune(Mutex::new(t)))
    }
    /// How many numbers learn.
    #[getter]
    fn parameters(&self) -> usize {
        self.0.lock().parameters
    }
    /// One step: the loss, and the share of preferences whose order is right.
    fn step(&self, py: Python<'_>) -> PyResult<(f64, Option<f64>)> {
        py.detach(|| self.0.lock().step()).or_raise(py)
    }
    /// The perplexity of the held-out text.
    fn perplexity(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        py.detach(|| self.0.lock().perplexity()).or_raise(py)
    }
    /// Writes the adapter or the model.
    fn save(&self, py: Python<'_>, out: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.lock().save(out)).or_raise(py)
    }
}

/// A token's event, or the last.
type PyEvent = (Option<u32>, String, f32, Vec<(u32, f32)>, Option<&'static str>, (usize, usize, usize));

#[pymethods]
impl PyEvents {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyEvent>> {
        let next = py.detach(|| self.0.lock().as_mut().and_then(Iterator::next));
        Ok(match next {
            None => None,
            Some(Event::Token { token, text, logprob, top }) => {
                Some((Some(token), text, logprob, top, None, (0, 0, 0)))
            }
            Some(Event::Done { reason, text, usage: u }) => {
                self.close();
                Some((None, text, 0.0, Vec::new(), Some(reason.name()), (u.prompt, u.cached, u.generated)))
            }
            Some(Event::Failed(e)) => return Err(value_error(&e)),
            Some(Event::Refused) => return Err(value_error("the request was refused")),
        })
    }
    /// Ends the request.
    fn close(&self) {
        drop(self.0.lock().take());
    }
}

/// Adds the classes.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyLanguageModel>()?;
    m.add_class::<PyEncoder>()?;
    m.add_class::<PyFinetune>()?;
    m.add_class::<PyEvents>()
}

//! Language models: loading, generation, evaluation.

use crate::error::{OrRaise, value_error};
use ::llm::engine::{Event, Events, Generation, Handle, Options};
use ::llm::{Evaluator, LanguageModel, Sampling};
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
    ) -> PyResult<PyLanguageModel> {
        let open = || {
            let mut model = LanguageModel::load(&path)?;
            if let Some(folder) = lora {
                model.load_lora(folder)?;
            }
            let evaluator = Evaluator::new(model.decoder.clone());
            let options =
                Options { sequences_max: sequences.max(1), length_max: length, cache_bytes, ..Options::default() };
            let handle = Handle::start(Arc::new(model), options, usize::MAX)?;
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
        logit_bias: Vec<(u32, f32)>,
        logprobs: usize,
        seed: u64,
        stop: Vec<String>,
        stop_token_ids: Vec<u32>,
        rules: (bool, usize, i32, usize),
        timeout: Option<f64>,
    ) -> PyResult<PyEvents> {
        let (temperature, top_k, top_p, min_p, repetition_penalty) = drawn;
        let (presence_penalty, frequency_penalty) = penalties;
        let (ignore_eos, min_tokens, priority, draft) = rules;
        let sampling = Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            logit_bias,
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
            timeout: timeout.and_then(|s| Duration::try_from_secs_f64(s).ok()),
            ..Generation::default()
        };
        Ok(PyEvents(Mutex::new(Some(self.handle.generate(generation).or_raise(py)?))))
    }
    /// The log probability of each token after the first.
    fn logprobs(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<Vec<f32>> {
        let scores = py.detach(|| self.evaluator.scores(&tokens)).or_raise(py)?;
        Ok(scores.into_iter().map(|s| s.logprob).collect())
    }
    /// The perplexity of tokens in windows.
    fn perplexity(&self, py: Python<'_>, tokens: Vec<u32>, length: usize) -> PyResult<f64> {
        py.detach(|| self.evaluator.perplexity(&tokens, length)).or_raise(py)
    }
    /// The embedding of a text.
    fn embedding(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<Vec<f32>> {
        py.detach(|| self.evaluator.embedding(&tokens)).or_raise(py)
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
    m.add_class::<PyEvents>()
}

//! What a client asks for, and what it is told.

use crate::constrain::Guide;
use crate::sample::Sampling;
use std::time::Duration;

/// A request for one text.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most; what fits if `None`.
    pub tokens_max: Option<usize>,
    /// Tokens before which no end is allowed.
    pub tokens_min: usize,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Texts that end generation.
    pub stops: Vec<String>,
    /// Tokens that end generation, besides those of the model.
    pub stop_tokens: Vec<u32>,
    /// Whether a stop string is part of the text.
    pub keeps_stop: bool,
    /// Goes on after the model's end tokens.
    pub ignores_eos: bool,
    /// Lower runs first.
    pub priority: i32,
    /// Requests with different salts share no KV.
    pub salt: Vec<u8>,
    /// Ends the request after this time.
    pub timeout: Option<Duration>,
    /// Refuses the request while it waits, once its first token would come later than this after its arrival.
    pub first_within: Option<Duration>,
    /// Tokens that are drafted in a step, by the draft model or else by prompt lookup; 0: none.
    pub draft: usize,
    /// The adapter that the text is generated with.
    pub adapter: Option<String>,
    /// What the text must look like.
    pub guide: Option<Guide>,
    /// Whether special tokens are part of the text.
    pub shows_special: bool,
}

impl Generation {
    /// Whether each token is the likeliest, whatever came before, and no other is asked for.
    pub fn is_greedy(&self) -> bool {
        let s = &self.sampling;
        let is_plain = s.repetition_penalty == 1.0 && s.presence_penalty == 0.0 && s.frequency_penalty == 0.0;
        let is_free = s.logit_bias.is_empty() && s.allowed_tokens.is_empty() && s.bad_words.is_empty();
        s.temperature == 0.0 && is_plain && is_free && s.logprobs == 0 && self.tokens_min == 0
    }
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An end token or a stop string.
    Stop,
    /// As long as allowed.
    Length,
    /// Canceled, or out of time.
    Aborted,
}

impl Reason {
    /// Its name in OpenAI's interface.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Stop => "stop",
            Reason::Length => "length",
            Reason::Aborted => "abort",
        }
    }
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of those, tokens whose KV was shared.
    pub cached: usize,
    /// Generated tokens, the end token included.
    pub generated: usize,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A token.
    Token {
        /// The token.
        token: u32,
        /// The text that can be shown after it; empty while a character or a stop string may be incomplete.
        text: String,
        /// Its log probability.
        logprob: f32,
        /// The likeliest tokens with theirs.
        top: Vec<(u32, f32)>,
    },
    /// The end.
    Done {
        /// Why.
        reason: Reason,
        /// The rest of the text.
        text: String,
        /// What was used.
        usage: Usage,
    },
    /// It cannot be continued.
    Failed(String),
    /// It has waited, and its first token would come too late.
    Refused,
}

/// Receives the events of a request; false says that the receiver is gone.
pub type Sink = Box<dyn FnMut(Event) -> bool + Send>;

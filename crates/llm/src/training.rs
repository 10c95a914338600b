//! Training by files: a model and data from disk, an adapter or every weight that learns, a held-out text, and what is
//! saved.

use crate::data::{examples, held_out, preferences};
use crate::finetune::{Finetune, FinetuneOptions, perplexity};
use crate::load::LanguageModel;
use crate::lora::LoraOptions;
use ir::{Error, Result};
use std::path::{Path, PathBuf};
use tensor::Variable;

/// What learns.
#[derive(Clone, Debug, PartialEq)]
pub enum Trained {
    /// A new adapter.
    Lora(LoraOptions),
    /// An adapter in PEFT's format, which goes on.
    Adapter(PathBuf),
    /// Every weight.
    Full,
    /// Every weight of a model that knows nothing yet: pre-training.
    Scratch,
}

/// How to train.
#[derive(Clone, Debug)]
pub struct TrainingOptions {
    /// What learns.
    pub trained: Trained,
    /// Batches, steps and rate.
    pub settings: FinetuneOptions,
    /// The share of the text that is not learned, but tested with.
    pub held_out: f64,
    /// The data are preferences; β of DPO.
    pub dpo: Option<f64>,
    /// Less memory for one more forward pass a step.
    pub checkpoint: bool,
}

/// A run.
pub struct Training {
    model: LanguageModel,
    run: Finetune,
    from: PathBuf,
    saved: Saved,
    test: Vec<u32>,
    window: usize,
    /// Numbers that learn.
    pub parameters: usize,
}

/// What is written in the end.
enum Saved {
    Adapter(LoraOptions),
    Folder(Vec<(String, Variable)>),
}

impl Training {
    /// Loads the model and the data.
    pub fn new(model: impl AsRef<Path>, data: impl AsRef<Path>, o: &TrainingOptions) -> Result<Training> {
        let (from, data) = (model.as_ref(), data.as_ref());
        if !(0.0..1.0).contains(&o.held_out) {
            return Err(Error::value(format!("{} is no share of the data to hold out", o.held_out)));
        }
        let mut model = match o.trained {
            Trained::Scratch => LanguageModel::from_scratch(from)?,
            _ => LanguageModel::load(from)?,
        };
        let window = o.settings.length.min(model.decoder.config.length_max);
        let settings = FinetuneOptions { length: window, batch: o.settings.batch.max(1), ..o.settings.clone() };
        model.set_rope_length(window)?;
        let (saved, variables) = prepared(&mut model, &o.trained)?;
        model.set_checkpoints(o.checkpoint)?;
        let parameters = variables.iter().map(|v| v.shape().count()).sum();
        let mut test = Vec::new();
        let run = match o.dpo {
            Some(beta) => Finetune::preferences(&model, variables, &preferences(&model, data)?, beta, settings)?,
            None => {
                let mut texts = examples(&model, data)?;
                test = held_out(&mut texts, o.held_out);
                Finetune::new(&model, variables, &texts, settings)?
            }
        };
        Ok(Training { model, run, from: from.to_path_buf(), saved, test, window, parameters })
    }

    /// One step; its loss, and for preferences the share of pairs whose order is right.
    pub fn step(&mut self) -> Result<(f64, Option<f64>)> {
        self.run.step()
    }
    /// The perplexity of the held-out text; none if there is less than a window of it.
    pub fn perplexity(&self) -> Result<Option<f64>> {
        if self.test.len() < self.window {
            return Ok(None);
        }
        perplexity(&self.model, &self.test, self.window).map(Some)
    }
    /// Writes the adapter in PEFT's format, or the whole model as a folder that Hugging Face's libraries read.
    pub fn save(&self, out: impl AsRef<Path>) -> Result<()> {
        match &self.saved {
            Saved::Adapter(options) => self.model.save_lora(out, options),
            Saved::Folder(weights) => self.model.save_folder(&self.from, weights, out.as_ref()),
        }
    }
    /// Sequences of packed texts, or pairs.
    pub fn count(&self) -> usize {
        self.run.count()
    }
    /// Tokens of a sequence.
    pub fn window(&self) -> usize {
        self.window
    }
    /// Whether all weights learn, not an adapter.
    pub fn is_full(&self) -> bool {
        matches!(self.saved, Saved::Folder(_))
    }
    /// Bytes of the model's matrices.
    pub fn byte_count(&self) -> usize {
        self.model.decoder.byte_count()
    }
}

/// Adds the adapter, or makes every weight a variable.
fn prepared(model: &mut LanguageModel, trained: &Trained) -> Result<(Saved, Vec<Variable>)> {
    Ok(match trained {
        Trained::Lora(options) => (Saved::Adapter(options.clone()), model.add_lora(options)?),
        Trained::Adapter(folder) => {
            let options = model.load_lora(folder)?;
            (Saved::Adapter(options), model.lora_variables()?)
        }
        Trained::Full | Trained::Scratch => {
            let weights = model.learn()?;
            let variables = weights.iter().map(|w| w.1.clone()).collect();
            (Saved::Folder(weights), variables)
        }
    })
}

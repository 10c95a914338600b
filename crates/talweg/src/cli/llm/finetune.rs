//! `talweg finetune`: an adapter, or every weight of a model, learns a text.

use crate::{Error, Result};
use ::llm::finetune::FinetuneOptions as Settings;
use ::llm::{LoraOptions, Trained, Training, TrainingOptions};
use std::path::PathBuf;
use std::time::Instant;

/// What to learn, and how.
#[derive(clap::Args)]
pub struct FinetuneOptions {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json.
    model: PathBuf,
    /// Plain text, or JSON lines with `text` or with `messages`, of which the assistant's are learned.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// An adapter in PEFT's format to go on with; rank, alpha and targets are its own.
    #[arg(long, value_name = "FOLDER")]
    init: Option<PathBuf>,
    /// Every weight learns, not an adapter; the whole model is saved as a folder of safetensors.
    #[arg(long, conflicts_with_all = ["init", "lora", "alpha", "targets"])]
    full: bool,
    /// Pre-training: weights are drawn again for the folder's config.json.
    #[arg(long, requires = "full")]
    scratch: bool,
    /// Rank of the adapter.
    #[arg(long, default_value_t = 16)]
    lora: usize,
    /// Results of the adapter are scaled by this over its rank; twice the rank if it is not given.
    #[arg(long)]
    alpha: Option<f64>,
    /// Linear layers that get an adapter.
    #[arg(long, value_delimiter = ',', default_value = "q_proj,k_proj,v_proj,o_proj")]
    targets: Vec<String>,
    /// Steps.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Sequences of a step.
    #[arg(long, default_value_t = 4)]
    batch: usize,
    /// Tokens of a sequence.
    #[arg(long, default_value_t = 128)]
    length: usize,
    /// Learning rate; 2e-4 for an adapter, 2e-5 with --full and 1e-3 with --scratch if it is not given.
    #[arg(long)]
    lr: Option<f64>,
    /// Seed of new weights and of the order of sequences.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The share of the text that is not learned, but tested with.
    #[arg(long, default_value_t = 0.1)]
    held_out: f64,
    /// The data are preferences: JSON lines with `prompt` (a text or messages), `chosen` and `rejected` (DPO).
    #[arg(long)]
    dpo: bool,
    /// How strongly preferences keep to the model as it was.
    #[arg(long, default_value_t = 0.1, requires = "dpo")]
    beta: f64,
    /// Less memory for one more forward pass a step: gradients compute a layer's inner values again.
    #[arg(long)]
    checkpoint: bool,
    /// Steps from a line with the loss to the next.
    #[arg(long, value_name = "STEPS", default_value_t = 10)]
    every: usize,
    /// Where the adapter goes, in PEFT's format, or the model; `adapter` or `model` if it is not given.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl FinetuneOptions {
    fn training(&self) -> TrainingOptions {
        let (trained, lr) = match (&self.init, self.full) {
            _ if self.scratch => (Trained::Scratch, 1e-3),
            (_, true) => (Trained::Full, 2e-5),
            (Some(folder), _) => (Trained::Adapter(folder.clone()), 2e-4),
            (None, _) => {
                let alpha = self.alpha.unwrap_or(2.0 * self.lora as f64);
                let options = LoraOptions { rank: self.lora.max(1), alpha, targets: self.targets.clone() };
                (Trained::Lora(options), 2e-4)
            }
        };
        let settings = Settings {
            steps: self.steps,
            batch: self.batch,
            length: self.length,
            lr: self.lr.unwrap_or(lr),
            seed: self.seed,
        };
        let dpo = self.dpo.then_some(self.beta);
        TrainingOptions { trained, settings, held_out: self.held_out, dpo, checkpoint: self.checkpoint }
    }
}

/// Fine-tunes, tests and saves. Under `talweg launch`, every worker learns a part of each batch.
pub fn finetune(o: &FinetuneOptions) -> Result<()> {
    crate::manual_seed(o.seed);
    if !(0.0..1.0).contains(&o.held_out) {
        return Err(Error::value(format!("--held-out: {} is no share", o.held_out)));
    }
    let is_first = nn::parallel::rank()? == 0;
    let say = |text: String| {
        if is_first {
            println!("{text}")
        }
    };
    let mut run = Training::new(&o.model, &o.data, &o.training())?;
    let tested = |run: &Training| if is_first { run.perplexity() } else { Ok(None) };
    let before = tested(&run)?;
    let (what, count) = (if o.dpo { "pairs" } else { "sequences" }, run.parameters);
    say(format!("{count} parameters learn {} {what} of {} tokens", run.count(), run.window()));
    learn(&mut run, o, &say)?;
    if let (Some(before), Some(after)) = (before, tested(&run)?) {
        say(format!("held-out perplexity {before:.2} before, {after:.2} after"));
    }
    let name = if run.is_full() { "model" } else { "adapter" };
    let out = o.out.clone().unwrap_or_else(|| name.into());
    if nn::parallel::writes_files()? {
        run.save(&out)?;
    }
    // What learns, its gradient and two moments.
    let trained = 4 * 4 * count;
    let mb = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    let peak = peak_bytes().map_or(String::new(), |p| format!(", {:.0} MB of memory at most", mb(p)));
    let weights = mb(run.byte_count());
    say(format!("weights {weights:.1} MB, {name} with gradients and moments {:.1} MB{peak}", mb(trained)));
    say(format!("the {name} is in {}", out.display()));
    nn::parallel::done()
}

/// The most memory that this process had, where the system says it.
fn peak_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kb| kb << 10)
}

fn learn(run: &mut Training, o: &FinetuneOptions, say: &dyn Fn(String)) -> Result<()> {
    let tokens = o.batch.max(1) * run.window() * nn::parallel::world()? * if o.dpo { 2 } else { 1 };
    let began = Instant::now();
    for step in 1..=o.steps {
        let (loss, right) = run.step()?;
        if step == 1 || step.is_multiple_of(o.every.max(1)) || step == o.steps {
            let rate = (step * tokens) as f64 / began.elapsed().as_secs_f64();
            let right = right.map_or(String::new(), |r| format!("  {:.0} % in order", 100.0 * r));
            say(format!("step {step:5}  loss {loss:.4}{right}  {rate:.0} tokens a second"));
        }
    }
    Ok(())
}

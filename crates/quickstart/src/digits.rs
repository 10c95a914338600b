//! The training run of the quickstart: data, model, training, checkpoints and a few predictions.

use crate::{Bar, INTERRUPTED, interrupt};
use data::{Digits, Loader, rendering};
use nn::optim::{Adam, Optimizer};
use nn::train::{Checkpoints, Every, Stop, Trainer};
use nn::{Columns, Layer, Linear, Module, Relu, Sequential};
use std::ffi::OsString;
use std::path::PathBuf;
use tensor::{DType, Error, Result, Tensor, manual_seed, no_grad};

/// Test images; they come from another seed: none of them is trained on.
const TEST: usize = 2_000;
const TEST_SEED: u64 = 1_000_003;

/// Settings of the quickstart.
#[derive(clap::Args)]
#[command(args_override_self = true)] // so that a command can be repeated with more options after it
pub struct Options {
    /// Passes over the training images.
    #[arg(long, default_value_t = 16)]
    epochs: usize,
    /// Images per step.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Images to train on.
    #[arg(long, alias = "pictures", default_value_t = 20_000)]
    images: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Seed of everything random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where checkpoints, the log and TensorBoard's files go.
    #[arg(long, default_value = "runs/digits")]
    dir: PathBuf,
    /// Resumes from the last checkpoint of the folder.
    #[arg(long)]
    resume: bool,
}

/// Trains, tests, shows a few predictions and says what to try next: TensorBoard, the lines of `next` (with the path of
/// the checkpoint for CHECKPOINT), and the same `command` with its `args` for longer. Returns the exit status.
///
/// # Errors
/// If a setting is out of range, or the folder has a run already and `--resume` is missing.
pub fn run(o: &Options, command: &str, args: &[OsString], next: &[&str]) -> Result<u8> {
    if o.batch == 0 || o.batch > o.images {
        return Err(Error::value(format!("--batch must be between 1 and {}, not {}", o.images, o.batch)));
    }
    let folder = Checkpoints::open(&o.dir)?.keep_last(2);
    if !o.resume && !folder.steps()?.is_empty() {
        let e = format!("there is a run in {} already: continue it with --resume", o.dir.display());
        return Err(Error::value(format!("{e}, or begin another with --dir FOLDER")));
    }
    manual_seed(o.seed);
    let model = Sequential::new().with(Linear::new(784, 256)?).with(Relu).with(Linear::new(256, 10)?);
    let count = model.parameter_count();
    println!("A multilayer perceptron, 784-256-10, {count} parameters, learns {} drawn digits.", o.images);
    let optimizer = Optimizer::new(Adam { lr: o.lr, ..Adam::default() }, &model)?;
    let digits = Digits::new(o.seed, o.images);
    let mut batches = Loader::builder(digits).batch(o.batch).shuffle(o.seed).drop_last(true).workers(1).build()?;
    let test = Test::new()?;
    let mut trainer = Trainer::new(&model, &optimizer, &mut batches)
        .epochs(o.epochs)
        .evaluate(Every::Epoch, || Ok(vec![("accuracy".to_string(), test.accuracy(&model)?)]))
        .checkpoints(folder, Every::Epoch)
        .journal(o.dir.join("log.jsonl"))
        .events(o.dir.join("events"))
        .report(Bar::new())
        .stop_when(interrupt()?);
    if o.resume && trainer.resume()?.is_none() {
        println!("There is no checkpoint in {} yet: this is the beginning.", o.dir.display());
    }
    let start = std::time::Instant::now();
    let outcome =
        trainer.fit_jit(&["image", "label"], |batch| Ok(model.forward(&pixels(&batch[0])).cross_entropy(&batch[1])))?;
    drop(trainer);
    if outcome.stop == Stop::Interrupted {
        println!("Continue with: {}", again(command, args, None));
        return Ok(INTERRUPTED as u8);
    }
    test.show(&model)?;
    println!("Trained to {} epochs; this took {:.1} s.", o.epochs, start.elapsed().as_secs_f64());
    println!("Accuracy on {TEST} digits it has never seen: {:.1} %.", 100.0 * test.accuracy(&model)?);
    let checkpoint = outcome.checkpoint.unwrap_or_default().display().to_string();
    println!("\nNext: tensorboard --logdir {}", o.dir.join("events").display());
    for line in next {
        println!("      {}", line.replace("CHECKPOINT", &checkpoint));
    }
    println!("      {}", again(command, args, Some(o.epochs + o.epochs.div_ceil(2))));
    Ok(0)
}

/// The command as it was given, to continue with `--resume` and perhaps another number of epochs.
fn again(command: &str, args: &[OsString], epochs: Option<usize>) -> String {
    let mut said: Vec<String> =
        args.iter().skip(1).map(|a| a.to_string_lossy().into_owned()).filter(|a| a != "--resume").collect();
    if let Some(epochs) = epochs {
        if let Some(at) = said.iter().position(|a| a == "--epochs") {
            said.drain(at..(at + 2).min(said.len()));
        }
        said.push(format!("--epochs {epochs}"));
    }
    said.insert(0, command.to_string());
    format!("{} --resume", said.join(" "))
}

/// Bytes as numbers in [0, 1), one row per image.
fn pixels(images: &Tensor) -> Tensor {
    images.cast(DType::F32).view(&[-1, 784]) * (1.0 / 256.0)
}

/// Images that are not trained on, and their labels.
struct Test {
    digits: Digits,
    images: Tensor,
    labels: Tensor,
}
impl Test {
    fn new() -> Result<Test> {
        let digits = Digits::new(TEST_SEED, TEST);
        let mut batches = Loader::builder(digits).batch(TEST).build()?;
        let Some(batch) = batches.next() else { return Err(Error::bug("no test images")) };
        let batch = batch?;
        let (images, labels) = (pixels(&batch.column("image")?), batch.column("label")?);
        images.eval()?;
        Ok(Test { digits, images, labels })
    }
    fn answers(&self, model: &Sequential) -> Tensor {
        no_grad(|| model.forward(&self.images).argmax(1))
    }
    fn accuracy(&self, model: &Sequential) -> Result<f64> {
        self.answers(model).eq(&self.labels).cast(DType::F32).mean(..).item()
    }
    /// Draws a few images with the model's answers.
    fn show(&self, model: &Sequential) -> Result<()> {
        let answers = self.answers(model).to_vec::<i64>()?;
        for (i, answer) in answers.iter().enumerate().take(3) {
            let (drawn, label) = self.digits.image(i);
            println!("{}  drawn as {label}, read as {answer}\n", rendering::ascii(&drawn, 28));
        }
        Ok(())
    }
}

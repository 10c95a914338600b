//! `talweg quickstart`: from nothing to a trained model, with something to look at.

use crate::{Bar, DType, Error, INTERRUPTED, Result, Tensor, interrupt, manual_seed, no_grad};
use data::{Digits, Loader, picture};
use nn::optim::{Adam, Optimizer};
use nn::train::{Checkpoints, Every, Stop, Trainer};
use nn::{Columns, Layer, Linear, Module, Relu, Sequential};
use std::ffi::OsString;
use std::path::PathBuf;

/// Pictures to test with; they come from another seed: none of them was trained on.
const TEST: usize = 2_000;
const TEST_SEED: u64 = 1_000_003;

/// Settings of the quickstart.
#[derive(clap::Args)]
#[command(args_override_self = true)] // so that a command can be repeated with more behind it
pub struct Options {
    /// Passes over the training pictures.
    #[arg(long, default_value_t = 16)]
    epochs: usize,
    /// Pictures a step.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Pictures to train on.
    #[arg(long, default_value_t = 20_000)]
    pictures: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Seed of everything random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where checkpoints, the log and TensorBoard's files go.
    #[arg(long, default_value = "runs/digits")]
    dir: PathBuf,
    /// Goes on from the last checkpoint of the folder.
    #[arg(long)]
    resume: bool,
}

/// Trains, tests, shows a few predictions and says what to try next.
pub fn run(o: &Options, args: &[OsString]) -> Result<u8> {
    if o.batch == 0 || o.batch > o.pictures {
        return Err(Error::value(format!("--batch must be between 1 and {}, not {}", o.pictures, o.batch)));
    }
    let folder = Checkpoints::open(&o.dir)?.keep_last(2);
    if !o.resume && !folder.steps()?.is_empty() {
        let e = format!("there is a run in {} already: go on with it with --resume", o.dir.display());
        return Err(Error::value(format!("{e}, or begin another with --dir FOLDER")));
    }
    manual_seed(o.seed);
    let model = Sequential::new().with(Linear::new(784, 256)?).with(Relu).with(Linear::new(256, 10)?);
    let count = model.parameter_count();
    println!("A multilayer perceptron, 784-256-10, {count} parameters, learns {} drawn digits.", o.pictures);
    let optimizer = Optimizer::new(Adam { lr: o.lr, ..Adam::default() }, &model)?;
    let digits = Digits::new(o.seed, o.pictures);
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
        println!("Go on with: {}", again(args, None));
        return Ok(INTERRUPTED as u8);
    }
    test.show(&model)?;
    println!("Trained to {} epochs; this took {:.1} s.", o.epochs, start.elapsed().as_secs_f64());
    println!("Accuracy on {TEST} digits it has never seen: {:.1} %.", 100.0 * test.accuracy(&model)?);
    let checkpoint = outcome.checkpoint.unwrap_or_default();
    println!("\nNext: talweg inspect {}", checkpoint.display());
    println!("      tensorboard --logdir {}", o.dir.join("events").display());
    println!("      talweg explain              what a training step is compiled to");
    println!("      {}", again(args, Some(o.epochs + o.epochs.div_ceil(2))));
    Ok(super::SUCCESS)
}

/// The command as it was given, to go on with `--resume` and perhaps another number of epochs.
fn again(args: &[OsString], epochs: Option<usize>) -> String {
    let mut said: Vec<String> =
        args.iter().skip(1).map(|a| a.to_string_lossy().into_owned()).filter(|a| a != "--resume").collect();
    if let Some(epochs) = epochs {
        if let Some(at) = said.iter().position(|a| a == "--epochs") {
            said.drain(at..(at + 2).min(said.len()));
        }
        said.push(format!("--epochs {epochs}"));
    }
    format!("talweg {} --resume", said.join(" "))
}

/// Bytes as numbers in [0, 1), one row a picture.
fn pixels(images: &Tensor) -> Tensor {
    images.cast(DType::F32).view(&[-1, 784]) * (1.0 / 256.0)
}

/// Pictures that are not trained on, and what they show.
struct Test {
    digits: Digits,
    images: Tensor,
    labels: Tensor,
}
impl Test {
    fn new() -> Result<Test> {
        let digits = Digits::new(TEST_SEED, TEST);
        let mut batches = Loader::builder(digits).batch(TEST).build()?;
        let Some(batch) = batches.next() else { return Err(Error::bug("no test pictures")) };
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
    /// Draws a few pictures with the model's answers.
    fn show(&self, model: &Sequential) -> Result<()> {
        let answers = self.answers(model).to_vec::<i64>()?;
        for (i, answer) in answers.iter().enumerate().take(3) {
            let (drawn, label) = self.digits.picture(i);
            println!("{}  drawn as {label}, read as {answer}\n", picture::ascii(&drawn, 28));
        }
        Ok(())
    }
}

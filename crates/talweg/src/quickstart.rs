//! `talweg quickstart`: from nothing to a trained model, with something to look at.

use data::{Digits, Loader, picture};
use indicatif::{ProgressBar, ProgressStyle};
use nn::optim::{Adam, Optimizer};
use nn::{Activation, Layer, Linear, Module, Sequential, column};
use std::path::PathBuf;
use talweg::{DType, Error, Result, Tensor, jit, manual_seed, no_grad, save};

/// Pictures to train on, and to test with.
const TRAIN: usize = 20_000;
const TEST: usize = 2_000;
/// The test pictures come from another seed: none of them was trained on.
const TEST_SEED: u64 = 1_000_003;

/// Settings of the quickstart.
#[derive(clap::Args)]
pub struct Options {
    /// Passes over the training pictures.
    #[arg(long, default_value_t = 16)]
    epochs: usize,
    /// Pictures a step.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Seed of everything random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the trained weights go.
    #[arg(long, default_value = "digits.safetensors")]
    out: PathBuf,
}

/// Trains, tests, shows a few predictions and says what to try next.
pub fn run(o: &Options) -> Result<()> {
    if o.batch == 0 || o.batch > TRAIN {
        return Err(Error::value(format!("--batch must be between 1 and {TRAIN}, not {}", o.batch)));
    }
    manual_seed(o.seed);
    let model = Sequential::new()
        .with(Linear::new(784, 256)?)
        .with(Activation::new("relu", Tensor::relu))
        .with(Linear::new(256, 10)?);
    model.name_variables();
    println!(
        "A multilayer perceptron, 784-256-10, {} parameters, learns {TRAIN} drawn digits.",
        model.parameter_count()
    );
    let optimizer = Optimizer::new(Adam { lr: o.lr, ..Adam::default() }, &model)?;
    let step = jit(|batch: &[Tensor]| {
        let loss = model.forward(&pixels(&batch[0])).cross_entropy(&batch[1], Default::default());
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });

    let train = Loader::builder(Digits::new(o.seed, TRAIN)).batch(o.batch).shuffle(o.seed).drop_last(true).workers(1);
    let mut train = train.build()?;
    let bar = ProgressBar::new(train.batches() * o.epochs as u64);
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} steps, {per_sec}, {eta} left, {msg}");
    bar.set_style(style.map_err(|e| Error::bug(e.to_string()))?);
    let start = std::time::Instant::now();
    for epoch in 0..o.epochs {
        for batch in &mut train {
            let batch = batch?;
            let loss = step.call(&[&column(&batch, "image")?, &column(&batch, "label")?])?;
            let loss = loss[0].item::<f32>()?;
            if !loss.is_finite() {
                return Err(Error::value(format!("the loss became {loss} in epoch {epoch}: try a smaller --lr")));
            }
            bar.set_message(format!("loss {loss:.3}"));
            bar.inc(1);
        }
    }
    bar.finish();
    let seconds = start.elapsed().as_secs_f64();

    let (right, shown) = test(&model)?;
    for s in shown {
        println!("{s}");
    }
    let named: Vec<(String, Tensor)> = model.state().iter().map(|(n, v)| (n.clone(), v.tensor())).collect();
    save(&o.out, &named.iter().map(|(n, t)| (n.as_str(), t)).collect::<Vec<_>>())?;
    println!("Trained {} epochs in {seconds:.1} s.", o.epochs);
    println!("Accuracy on {TEST} digits it has never seen: {:.1} %.", 100.0 * right as f64 / TEST as f64);
    println!("The weights are in {}.", o.out.display());
    println!("\nNext: talweg inspect {}", o.out.display());
    println!("      talweg explain              what the training step was compiled to");
    println!("      talweg quickstart --epochs 40 --lr 5e-4");
    Ok(())
}

/// Bytes as numbers in [0, 1), one row a picture.
fn pixels(images: &Tensor) -> Tensor {
    images.cast(DType::F32).view(&[-1, 784]) * (1.0 / 256.0)
}

/// How many test pictures are told right, and a few of them drawn with the answer.
fn test(model: &Sequential) -> Result<(usize, Vec<String>)> {
    let digits = Digits::new(TEST_SEED, TEST);
    let test = Loader::builder(digits).batch(500);
    let (mut right, mut answers) = (0, Vec::new());
    for batch in &mut test.build()? {
        let batch = batch?;
        let scores = no_grad(|| Ok::<_, Error>(model.forward(&pixels(&column(&batch, "image")?))))?;
        let got = scores.argmax(1).to_vec::<i64>()?;
        let want = column(&batch, "label")?.to_vec::<i64>()?;
        right += got.iter().zip(&want).filter(|(g, w)| g == w).count();
        answers.extend(got);
    }
    let shown = (0..3).map(|i| {
        let (picture, label) = digits.picture(i);
        format!("{}  drawn as {label}, read as {}\n", picture::ascii(&picture, 28), answers[i])
    });
    Ok((right, shown.collect()))
}

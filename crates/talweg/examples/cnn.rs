//! A convolutional network on Fashion-MNIST: two convolutions and two linear layers.
//!
//! ```text
//! apt install dataset-fashion-mnist    # or put its files into a folder that TALWEG_DATA names
//! cargo run --release -p talweg --example cnn -- runs/cnn
//! tensorboard --logdir runs/cnn
//! ```
//! After 8 epochs, 4 minutes on two cores, it classifies **92.8 %** of the 10,000 test images correctly
//! (published for two convolutions: 87.6 to 92.5 %). The folder is optional: it receives checkpoints and
//! events, and a stopped run resumes from it. Without Fashion-MNIST it uses the built-in digits.

use talweg::data::fashion::{self, Part};
use talweg::data::{self, Digits};
use talweg::nn::metrics::Accuracy;
use talweg::nn::schedule::OneCycle;
use talweg::nn::train::{Goal, Metrics};
use talweg::{Bar, prelude::*};

/// Convolution, normalization, ReLU and a pool that halves both sides.
fn block(inputs: usize, outputs: usize) -> Result<Sequential> {
    let same = ConvOptions { padding: 1.into(), ..Default::default() };
    Ok(Sequential::new()
        .with(Conv2d::without_bias(inputs, outputs, [3, 3], same)?)
        .with(BatchNorm::new(outputs)?)
        .with(Relu)
        .with(MaxPool2d::new(2)))
}

fn network() -> Result<Sequential> {
    Ok(Sequential::new()
        .with(block(1, 32)?)
        .with(block(32, 64)?)
        .with(Flatten::default())
        .with(Dropout::new(0.3))
        .with(Linear::new(64 * 7 * 7, 128)?)
        .with(Relu)
        .with(Dropout::new(0.3))
        .with(Linear::new(128, 10)?))
}

fn main() -> Result<()> {
    manual_seed(0);
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let (epochs, count) = if is_quick { (1, 500) } else { (8, usize::MAX) };
    let [train, test] = images()?;
    let mut train = Loader::builder(train.take(count)).batch(100).shuffle(0).drop_last(true).workers(1).build()?;
    let mut test = Loader::builder(test.take(count)).batch(500).build()?;

    let model = network()?;
    let optimizer = Optimizer::new(AdamW { weight_decay: 0.05, ..AdamW::default() }, &model)?;
    let schedule = OneCycle::new(4e-3, epochs * train.batches());
    println!("{} parameters, {} images, {epochs} epochs", model.parameter_count(), train.samples());
    let mut trainer = Trainer::new(&model, &optimizer, &mut train)
        .epochs(epochs)
        .schedule(schedule)
        .evaluate(Every::Epoch, || accuracy(&model, &mut test))
        .watch("accuracy", Goal::Max)
        .report(Bar::new());
    if let Some(folder) = std::env::args().nth(1) {
        trainer = trainer.checkpoints(Checkpoints::open(&folder)?, Every::Epoch).events(&folder);
        if let Some(step) = trainer.resume()? {
            println!("{folder} goes on after step {step}");
        }
    }
    let outcome =
        trainer.fit_jit(&["image", "label"], |batch| Ok(model.forward(&pixels(&batch[0])).cross_entropy(&batch[1])))?;
    if let Some((accuracy, step)) = outcome.best {
        println!("best after step {step}: {:.2} % of the test images", 100.0 * accuracy);
    }
    Ok(())
}

/// Bytes `[N, 28, 28]` as one channel of numbers around zero.
fn pixels(images: &Tensor) -> Tensor {
    (images.cast(DType::F32).unsqueeze(1) / 255.0 - 0.286) / 0.353
}

/// Portion of the images that are told right.
fn accuracy(model: &Sequential, test: &mut Loader) -> Result<Metrics> {
    let mut accuracy = Accuracy::default();
    for batch in test {
        let batch = batch?;
        accuracy.update(&model.forward(&pixels(&batch.column("image")?)), &batch.column("label")?)?;
    }
    Ok(vec![("accuracy".into(), accuracy.value())])
}

/// Fashion-MNIST to train and to test with; or the built-in digits, which look the same from outside.
fn images() -> Result<[Box<dyn Dataset>; 2]> {
    match (fashion::load(Part::Train), fashion::load(Part::Test)) {
        (Ok(train), Ok(test)) => Ok([Box::new(train), Box::new(test)]),
        (Err(missing @ data::Error::Missing { .. }), _) => {
            println!("{missing}\nThis run learns them instead.\n");
            // Another seed: none of the test digits was trained on.
            Ok([Box::new(Digits::new(0, 20_000)), Box::new(Digits::new(1, 2_000))])
        }
        (Err(broken), _) | (_, Err(broken)) => Err(broken.into()),
    }
}

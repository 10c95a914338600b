//! A small convolutional net for devices and pages: trained on the built-in digits, then exported.
//!
//! ```text
//! cargo run --release -p talweg --example edge -- models/digits
//! talweg build models/digits                       # a program
//! talweg build models/digits --lib                 # a C library
//! talweg build models/digits --target wasm32 -o web/model.wasm
//! ```
//! The page in `crates/edge/web` classifies what is drawn on it with the last of them.

use talweg::data::Digits;
use talweg::export::Export;
use talweg::prelude::*;

/// Convolution, ReLU and a pool that halves both sides.
fn block(inputs: usize, outputs: usize) -> Result<Sequential> {
    let same = ConvOptions { padding: 1.into(), ..Default::default() };
    Ok(Sequential::new().with(Conv2d::with(inputs, outputs, [3, 3], same)?).with(Relu).with(MaxPool2d::new(2)))
}

fn main() -> Result<()> {
    manual_seed(0);
    let dir = std::env::args().nth(1).unwrap_or_else(|| "target/digits".to_string());
    let count = if std::env::var("TALWEG_QUICK").is_ok() { 1_000 } else { 20_000 };
    let net = Sequential::new()
        .with(block(1, 8)?)
        .with(block(8, 16)?)
        .with(Flatten::default())
        .with(Linear::new(16 * 7 * 7, 10)?);
    let optimizer = Optimizer::new(Adam { lr: 2e-3, ..Adam::default() }, &net)?;
    let mut train = Loader::builder(Digits::new(0, count)).batch(50).shuffle(0).drop_last(true).workers(1).build()?;
    let loss = |batch: &[Tensor]| {
        let image = batch[0].cast(DType::F32).unsqueeze(1) / 255.0;
        Ok(net.forward(&image).cross_entropy(&batch[1]))
    };
    Trainer::new(&net, &optimizer, &mut train).epochs(2).fit_jit(&["image", "label"], loss)?;

    let test: Vec<(Tensor, u8)> = (0..500).map(|i| Digits::new(1, 500).image(i)).map(drawing).collect();
    let is_right = |(x, label): &(Tensor, u8)| -> Result<bool> {
        Ok(net.forward(x).argmax(-1).to_vec::<i64>()? == [i64::from(*label)])
    };
    let right = no_grad(|| test.iter().map(is_right).collect::<Result<Vec<bool>>>())?;
    println!("{} of 500 drawings are read right", right.iter().filter(|r| **r).count());

    let export = Export::new("digits").input("image", &test[0].0, &["", "", "", ""]).outputs(&["digit"]);
    export.write(&dir, |x| Ok(vec![net.forward(&x[0]).softmax(-1)]))?;
    println!("talweg build {dir}");
    Ok(())
}

/// An image as the net takes it.
fn drawing((image, label): ([u8; 784], u8)) -> (Tensor, u8) {
    let pixels: Vec<f32> = image.iter().map(|p| f32::from(*p) / 255.0).collect();
    (Tensor::from(pixels).reshape([1, 1, 28, 28]), label)
}

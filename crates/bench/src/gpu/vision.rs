//! ResNet-50 in training.

use super::{emit, look, normal, timed};
use crate::harness::labels;
use nn::optim::{Optimizer, Sgd};
use nn::{BatchNorm, Conv2d, Layer, Linear, Module};
use tensor::nn::{ConvOptions, MaxPoolOptions};
use tensor::{DType, Result, Tensor, autocast, engine_named, jit};

/// A convolution without bias and its normalization.
#[derive(nn::Module)]
struct Normed {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Normed {
    fn new(inputs: usize, outputs: usize, kernel: usize, stride: usize) -> Result<Normed> {
        let options = ConvOptions::new().stride(stride).padding(kernel / 2);
        Ok(Normed {
            conv: Conv2d::without_bias(inputs, outputs, [kernel, kernel], options)?,
            norm: BatchNorm::new(outputs)?,
        })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.forward(&self.conv.forward(x))
    }
}

#[derive(nn::Module)]
struct Block {
    parts: Vec<Normed>,
    down: Option<Normed>,
}

impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.parts[1].forward(&self.parts[0].forward(x).relu()).relu();
        let skip = self.down.as_ref().map_or_else(|| x.clone(), |d| d.forward(x));
        (self.parts[2].forward(&h) + skip).relu()
    }
}

#[derive(nn::Module)]
struct ResNet {
    stem: Normed,
    blocks: Vec<Block>,
    last: Linear,
}

impl ResNet {
    fn new() -> Result<ResNet> {
        let (mut blocks, mut inputs) = (Vec::new(), 64);
        for (stage, (count, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
            for i in 0..count {
                let stride = if stage > 0 && i == 0 { 2 } else { 1 };
                let outputs = 4 * width;
                let parts = vec![
                    Normed::new(inputs, width, 1, 1)?,
                    Normed::new(width, width, 3, stride)?,
                    Normed::new(width, outputs, 1, 1)?,
                ];
                let down = if i == 0 { Some(Normed::new(inputs, outputs, 1, stride)?) } else { None };
                blocks.push(Block { parts, down });
                inputs = outputs;
            }
        }
        Ok(ResNet { stem: Normed::new(3, 64, 7, 2)?, blocks, last: Linear::new(2048, 1000)? })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.stem.forward(x).relu().max_pool2d(3, MaxPoolOptions::new().stride(2).padding(1));
        let h = self.blocks.iter().fold(h, |h, b| b.forward(&h));
        self.last.forward(&h.mean([2, 3]))
    }
}

/// One training step on 256 images of 224 × 224 in bf16 with momentum.
pub fn train(at: &str) -> Result<()> {
    let batch = 256;
    let m = ResNet::new()?;
    let optimizer = Optimizer::new(Sgd { lr: 0.1, momentum: 0.9, ..Sgd::default() }, m.parameters().as_slice())?;
    let step = jit(|a: &[Tensor]| {
        let loss = autocast(DType::BF16, || m.forward(&a[0]).cross_entropy(&a[1]))?;
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let (x, y) = (normal(&[batch, 3, 224, 224], DType::F32)?, labels(2, &[batch], 1000).to(at));
    let first: f64 = step.call(&[&x, &y])?[0].item()?;
    look(&step, &[&x, &y])?;
    let device = engine_named(at)?.device();
    device.reset_peak();
    let ms = timed(at, 5, 10, || step.call(&[&x, &y]).map(drop))?;
    let last: f64 = step.call(&[&x, &y])?[0].item()?;
    let peak = device.memory().map_or(0.0, |m| m.peak_bytes as f64 / f64::from(1 << 30));
    let note = format!("peak {peak:.1} GiB, loss {first:.3} to {last:.3} in 16 steps");
    emit("resnet50-train-bf16-b256", ms, Some(batch as f64 / ms * 1e3), "images/s", &note);
    Ok(())
}

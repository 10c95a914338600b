//! Convolutional networks: LeNet and ResNet-18.

use crate::dense::perceptron;
use crate::harness::{Init, Measured, fill, labels, latency, steps, sum_of_squares};
use nn::optim::{Optimizer, Sgd};
use nn::{BatchNorm, Conv2d, Layer, Linear, Module};
use tensor::nn::{ConvOptions, MaxPoolOptions};
use tensor::{Result, Tensor, jit};

fn momentum() -> Sgd {
    Sgd { lr: 0.01, momentum: 0.9, ..Sgd::default() }
}

#[derive(nn::Module)]
struct LeNet {
    convs: Vec<Conv2d>,
    dense: Vec<Linear>,
}

impl LeNet {
    fn new() -> Result<LeNet> {
        let wide = ConvOptions::new().padding(2);
        let convs = vec![Conv2d::with(1, 6, [5, 5], wide)?, Conv2d::new(6, 16, [5, 5])?];
        let dense = vec![Linear::new(400, 120)?, Linear::new(120, 84)?, Linear::new(84, 10)?];
        let mut init = Init::new();
        convs.iter().try_for_each(|c| init.affine(&c.weight, c.bias.as_ref()))?;
        dense.iter().try_for_each(|l| init.linear(l))?;
        Ok(LeNet { convs, dense })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.convs.iter().fold(x.clone(), |h, c| c.forward(&h).relu().max_pool2d(2, MaxPoolOptions::new()));
        perceptron(&self.dense, &h.flatten(1, -1))
    }
}

/// One training step on 28×28 images, batch 64.
pub fn lenet() -> Result<Measured> {
    let m = LeNet::new()?;
    train(&m, |x| m.forward(x), fill(1, &[64, 1, 28, 28], 1.0))
}

fn train(m: &impl Module, forward: impl Fn(&Tensor) -> Tensor, x: Tensor) -> Result<Measured> {
    let optimizer = Optimizer::new(momentum(), m.parameters().as_slice())?;
    let y = labels(2, &[x.shape()?[0]], 10);
    let step = jit(|a: &[Tensor]| {
        let loss = forward(&a[0]).cross_entropy(&a[1]);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    steps(|| step.call(&[&x, &y])?[0].item())
}

/// A convolution without bias and its normalization.
#[derive(nn::Module)]
struct Normed {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Normed {
    fn new(init: &mut Init, inputs: usize, outputs: usize, kernel: usize, stride: usize) -> Result<Normed> {
        let options = ConvOptions::new().stride(stride).padding(kernel / 2);
        let conv = Conv2d::without_bias(inputs, outputs, [kernel, kernel], options)?;
        init.bound(&conv.weight, (6.0 / (inputs * kernel * kernel) as f64).sqrt() as f32)?;
        Ok(Normed { conv, norm: BatchNorm::new(outputs)? })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.forward(&self.conv.forward(x))
    }
}

#[derive(nn::Module)]
struct Block {
    first: Normed,
    second: Normed,
    down: Option<Normed>,
}

impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.second.forward(&self.first.forward(x).relu());
        let skip = self.down.as_ref().map_or_else(|| x.clone(), |d| d.forward(x));
        (h + skip).relu()
    }
}

#[derive(nn::Module)]
pub(crate) struct ResNet {
    stem: Normed,
    /// The stem halves its result once more, as for large images.
    pooled: bool,
    blocks: Vec<Block>,
    last: Linear,
}

impl ResNet {
    pub(crate) fn new(large: bool) -> Result<ResNet> {
        let mut init = Init::new();
        let stem = if large { Normed::new(&mut init, 3, 64, 7, 2)? } else { Normed::new(&mut init, 3, 64, 3, 1)? };
        let (mut blocks, mut inputs) = (Vec::new(), 64);
        for (stage, outputs) in [64, 128, 256, 512].into_iter().enumerate() {
            for i in 0..2 {
                let stride = if stage > 0 && i == 0 { 2 } else { 1 };
                let first = Normed::new(&mut init, inputs, outputs, 3, stride)?;
                let second = Normed::new(&mut init, outputs, outputs, 3, 1)?;
                let down =
                    if inputs == outputs { None } else { Some(Normed::new(&mut init, inputs, outputs, 1, stride)?) };
                blocks.push(Block { first, second, down });
                inputs = outputs;
            }
        }
        let last = Linear::new(512, if large { 1000 } else { 10 })?;
        init.linear(&last)?;
        Ok(ResNet { stem, pooled: large, blocks, last })
    }
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let mut h = self.stem.forward(x).relu();
        if self.pooled {
            h = h.max_pool2d(3, MaxPoolOptions::new().stride(2).padding(1));
        }
        let h = self.blocks.iter().fold(h, |h, b| b.forward(&h));
        self.last.forward(&h.mean([2, 3]))
    }
}

/// One training step of ResNet-18 on 32×32 images, batch 32.
pub fn resnet_train() -> Result<Measured> {
    let m = ResNet::new(false)?;
    train(&m, |x| m.forward(x), fill(1, &[32, 3, 32, 32], 1.0))
}

/// ResNet-18's answer to one 224×224 image.
pub fn resnet_infer() -> Result<Measured> {
    let m = ResNet::new(true)?;
    m.train(false);
    let x = fill(1, &[1, 3, 224, 224], 1.0);
    let f = jit(|a: &[Tensor]| Ok(vec![m.forward(&a[0])])).frozen();
    let check = sum_of_squares(&f.call(&[&x])?[0])?;
    let times = latency(|| f.call(&[&x]).map(drop))?;
    Ok(Measured { times, check })
}

//! MobileNet v2 for devices: the net of 2018 for 1,000 classes and images of 224 × 224, exported.
//!
//! ```text
//! cargo run --release -p talweg --example mobilenet -- models/mobilenet
//! talweg build models/mobilenet
//! ./mobilenet --time 20
//! ```
//! Weights are random: this shows size and speed of the program, not what is in an image.

use talweg::export::Export;
use talweg::prelude::*;

/// Each kind of block: how much wider it is inside, its channels, how many, and the stride of the first.
const BLOCKS: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// Convolution and normalization, and ReLU up to 6 where it is wanted.
#[derive(Module)]
struct Unit {
    conv: Conv2d,
    norm: BatchNorm,
    #[module(skip)]
    is_linear: bool,
}

impl Unit {
    fn new(
        inputs: usize,
        outputs: usize,
        kernel: usize,
        stride: usize,
        groups: usize,
        is_linear: bool,
    ) -> Result<Unit> {
        let options = ConvOptions { padding: (kernel / 2).into(), stride: stride.into(), groups, ..Default::default() };
        let conv = Conv2d::without_bias(inputs, outputs, [kernel; 2], options)?;
        Ok(Unit { conv, norm: BatchNorm::new(outputs)?, is_linear })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.norm.forward(&self.conv.forward(x));
        if self.is_linear { y } else { y.clamp(0.0, 6.0) }
    }
}

/// An inverted residual block: wider, by channel, narrower, around it the input if the sizes agree.
#[derive(Module)]
struct Block {
    units: Vec<Unit>,
    #[module(skip)]
    is_residual: bool,
}

impl Block {
    fn new(inputs: usize, outputs: usize, stride: usize, expand: usize) -> Result<Block> {
        let inner = inputs * expand;
        let mut units = Vec::new();
        if expand > 1 {
            units.push(Unit::new(inputs, inner, 1, 1, 1, false)?);
        }
        units.push(Unit::new(inner, inner, 3, stride, inner, false)?);
        units.push(Unit::new(inner, outputs, 1, 1, 1, true)?);
        Ok(Block { units, is_residual: stride == 1 && inputs == outputs })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.units.iter().fold(x.clone(), |y, unit| unit.forward(&y));
        if self.is_residual { x + y } else { y }
    }
}

#[derive(Module)]
struct MobileNet {
    first: Unit,
    blocks: Vec<Block>,
    last: Unit,
    classes: Linear,
}

impl MobileNet {
    fn new(classes: usize) -> Result<MobileNet> {
        let mut blocks = Vec::new();
        let mut inputs = 32;
        for (expand, outputs, count, stride) in BLOCKS {
            for i in 0..count {
                blocks.push(Block::new(inputs, outputs, if i == 0 { stride } else { 1 }, expand)?);
                inputs = outputs;
            }
        }
        let (first, last) = (Unit::new(3, 32, 3, 2, 1, false)?, Unit::new(inputs, 1280, 1, 1, 1, false)?);
        Ok(MobileNet { first, blocks, last, classes: Linear::new(1280, classes)? })
    }
    /// Images `[N, 3, H, W]` to scores of the classes.
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(self.first.forward(x), |x, block| block.forward(&x));
        self.classes.forward(&self.last.forward(&x).mean([2, 3]))
    }
}

fn main() -> Result<()> {
    manual_seed(0);
    let dir = std::env::args().nth(1).unwrap_or_else(|| "target/mobilenet".to_string());
    let side = if std::env::var("TALWEG_QUICK").is_ok() { 32 } else { 224 };
    let net = MobileNet::new(1000)?;
    net.train(false);
    println!("{} parameters", net.parameter_count());
    let x = Tensor::rand([1, 3, side, side]);
    let export = Export::new("mobilenet").input("image", &x, &["", "", "", ""]).outputs(&["scores"]);
    export.write(&dir, |x| Ok(vec![net.forward(&x[0])]))?;
    println!("talweg build {dir}");
    Ok(())
}

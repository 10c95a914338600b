//! Nets of the serving benchmark, exported as a model repository: a perceptron of 64, 128 and 16 (`small`), one of three
//! layers of 1024 (`wide`), ResNet-18, the encoder of MiniLM at 32 tokens, and a text recognizer of convolutions and an LSTM
//! (`ocr`). `scripts/serve_nets.py` writes the same nets with the weights of PyTorch.

use crate::vision::ResNet;
use model::Export;
use nn::{BatchNorm, Conv2d, Embedding, Layer, LayerNorm, Linear, Lstm, Module, RecurrentOptions};
use std::path::Path;
use tensor::nn::{AttentionOptions, ConvOptions, MaxPoolOptions};
use tensor::{DType, Error, Result, Tensor};

/// The names of the nets.
pub const NETS: [&str; 5] = ["small", "wide", "resnet18", "minilm", "ocr"];
/// Tokens of a sentence.
const LENGTH: usize = 32;
/// Elements of a token of MiniLM.
const WIDTH: usize = 384;
const HEADS: usize = 12;

/// Exports a net to `DIRECTORY/NAME/1`, with random weights.
pub fn write(directory: &Path, name: &str) -> Result<()> {
    let to = directory.join(name).join("1");
    match name {
        "small" => dense(name, &[64, 128, 16], &to),
        "wide" => dense(name, &[1024, 1024, 1024, 1024], &to),
        "resnet18" => {
            let net = ResNet::new(true)?;
            net.train(false);
            one(name, "input", &[3, 224, 224], &to, |x| Ok(net.forward(x)))
        }
        "ocr" => {
            let net = Recognizer::new()?;
            net.train(false);
            one(name, "image", &[1, 32, 128], &to, |x| Ok(net.forward(x)))
        }
        "minilm" => {
            let net = Encoder::new()?;
            let tokens = Tensor::ones_of([2, LENGTH], DType::I64);
            let export = Export::new(name).input("ids", &tokens, &["batch", ""]).input("mask", &tokens, &["batch", ""]);
            export.outputs(&["output"]).write(to, |x| Ok(vec![net.forward(&x[0], &x[1])?]))
        }
        _ => Err(Error::value(format!("{name}: the nets are {}", NETS.join(", ")))),
    }
}

/// A net with one input, whose first axis is free.
fn one(name: &str, input: &str, shape: &[usize], to: &Path, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    let example = Tensor::ones([&[2], shape].concat());
    let axes: Vec<&str> = (0..=shape.len()).map(|axis| if axis == 0 { "batch" } else { "" }).collect();
    Export::new(name).input(input, &example, &axes).outputs(&["output"]).write(to, |x| Ok(vec![f(&x[0])?]))
}

fn dense(name: &str, widths: &[usize], to: &Path) -> Result<()> {
    let layers = widths.windows(2).map(|w| Linear::new(w[0], w[1])).collect::<Result<Vec<Linear>>>()?;
    one(name, "input", &widths[..1], to, |x| Ok(crate::dense::perceptron(&layers, x)))
}

/// BERT with 6 layers of 384, mean pooling, vectors of length 1.
struct Encoder {
    words: Embedding,
    places: Embedding,
    norm: LayerNorm,
    layers: Vec<EncoderLayer>,
}

struct EncoderLayer {
    /// Query, key, value, output.
    heads: [Linear; 4],
    up: Linear,
    down: Linear,
    norms: [LayerNorm; 2],
}

fn norm() -> Result<LayerNorm> {
    let mut norm = LayerNorm::new(&[WIDTH])?;
    norm.eps = 1e-12;
    Ok(norm)
}

impl EncoderLayer {
    fn new() -> Result<EncoderLayer> {
        let square = || Linear::new(WIDTH, WIDTH);
        Ok(EncoderLayer {
            heads: [square()?, square()?, square()?, square()?],
            up: Linear::new(WIDTH, 4 * WIDTH)?,
            down: Linear::new(4 * WIDTH, WIDTH)?,
            norms: [norm()?, norm()?],
        })
    }
    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let rows = x.shape()?[0];
        let [query, key, value, out] = &self.heads;
        let split = |l: &Linear| l.forward(x).reshape([rows, LENGTH, HEADS, WIDTH / HEADS]).transpose(1, 2);
        let options = AttentionOptions { mask: Some(mask.clone()), ..AttentionOptions::default() };
        let y = split(query).attention(&split(key), &split(value), options);
        let y = out.forward(&y.transpose(1, 2).reshape([rows, LENGTH, WIDTH]));
        let x = self.norms[0].forward(&(x + &y));
        Ok(self.norms[1].forward(&(&x + &self.down.forward(&self.up.forward(&x).gelu()))))
    }
}

impl Encoder {
    fn new() -> Result<Encoder> {
        Ok(Encoder {
            words: Embedding::new(30522, WIDTH)?,
            places: Embedding::new(512, WIDTH)?,
            norm: norm()?,
            layers: (0..6).map(|_| EncoderLayer::new()).collect::<Result<_>>()?,
        })
    }
    fn forward(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let weight = mask.cast(DType::F32);
        let places = self.places.forward(&Tensor::arange(0..LENGTH as i64));
        let mut x = self.norm.forward(&(self.words.forward(ids) + places));
        let bias = ((1.0 - &weight) * -1e4).unsqueeze(1).unsqueeze(1);
        for layer in &self.layers {
            x = layer.forward(&x, &bias)?;
        }
        let y = (x * weight.unsqueeze(-1)).sum([1]) / weight.sum_keep([1]).clamp_min(1e-9);
        Ok(&y / (&y * &y).sum_keep([-1]).sqrt().clamp_min(1e-9))
    }
}

/// Convolutions over a line of 32 pixels, a bidirectional LSTM, scores for CTC.
#[derive(nn::Module)]
struct Recognizer {
    convs: Vec<Conv2d>,
    norms: Vec<BatchNorm>,
    lstm: Lstm,
    out: Linear,
}

/// Input and output channels, and how the height and width shrink after each convolution.
const STAGES: [(usize, usize, [usize; 2]); 5] =
    [(1, 32, [2, 2]), (32, 64, [2, 2]), (64, 128, [2, 1]), (128, 256, [2, 1]), (256, 256, [2, 1])];

impl Recognizer {
    fn new() -> Result<Recognizer> {
        let conv = |&(a, b, _): &(usize, usize, _)| Conv2d::without_bias(a, b, [3, 3], ConvOptions::new().padding(1));
        let options = RecurrentOptions { batch_first: true, bidirectional: true, ..RecurrentOptions::default() };
        Ok(Recognizer {
            convs: STAGES.iter().map(conv).collect::<Result<_>>()?,
            norms: STAGES.iter().map(|stage| BatchNorm::new(stage.1)).collect::<Result<_>>()?,
            lstm: Lstm::with(256, 128, options)?,
            out: Linear::new(256, 97)?,
        })
    }
    fn forward(&self, image: &Tensor) -> Tensor {
        let layers = self.convs.iter().zip(&self.norms).zip(STAGES);
        let x = layers.fold(image.clone(), |x, ((conv, norm), (_, _, pool))| {
            let options = MaxPoolOptions::new().stride(pool);
            norm.forward(&conv.forward(&x)).relu().max_pool2d(pool, options)
        });
        self.out.forward(&self.lstm.forward(&x.squeeze([2]).transpose(1, 2))).log_softmax(-1)
    }
}

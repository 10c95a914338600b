//! Image captioning: a convolutional encoder and a transformer decoder.
//!
//! ```text
//! cargo run --release -p talweg --example captions
//! ```
//! The images hold one or two of the built-in digits; captions are of the kind "a seven and a two",
//! "a pair of sevens", "an eight alone". After 6 epochs over 15,000 of them, 50 s on two cores, **95 %**
//! of the captions of 500 held-out images are right in every word.

use talweg::data::{self, Array, Digits, Sample, rendering};
use talweg::nn::AttentionOptions;
use talweg::nn::schedule::OneCycle;
use talweg::nn::{TransformerDecoder, TransformerOptions};
use talweg::{Bar, prelude::*};

/// A caption has at most this many words, the end included.
const LENGTH: usize = 6;
const WIDTH: usize = 64;
/// The first ends a caption, fills it up and stands before it.
const WORDS: [&str; 27] = [
    "", "a", "an", "pair", "of", "and", "alone", "zero", "one", "two", "three", "four", "five", "six", "seven",
    "eight", "nine", "zeros", "ones", "twos", "threes", "fours", "fives", "sixes", "sevens", "eights", "nines",
];

/// The numbers of the words of a caption.
fn numbers(caption: &str) -> Vec<i64> {
    caption.split(' ').filter_map(|word| WORDS.iter().position(|w| *w == word)).map(|n| n as i64).collect()
}

/// Scenes of one or two digits with their captions.
struct Scenes {
    digits: Digits,
    count: usize,
}

impl Scenes {
    /// An image of 28 rows and 56 columns, and what is in it.
    fn scene(&self, index: usize) -> (Vec<u8>, String) {
        let (left, l) = self.digits.image(2 * index);
        let (right, r) = self.digits.image(2 * index + 1);
        let name = |digit: u8| WORDS[7 + digit as usize];
        let one = |digit: u8| format!("{} {}", if digit == 8 { "an" } else { "a" }, name(digit));
        let (right, caption) = match index % 3 {
            0 => ([0; 28 * 28], format!("{} alone", one(l))),
            _ if l == r => (right, format!("a pair of {}", name(10 + l))),
            _ => (right, format!("{} and {}", one(l), one(r))),
        };
        let rows = left.chunks(28).zip(right.chunks(28));
        (rows.flat_map(|(a, b)| [a, b].concat()).collect(), caption)
    }
}

impl Dataset for Scenes {
    fn len(&self) -> usize {
        self.count
    }
    fn get(&self, index: usize) -> data::Result<Sample> {
        let (pixels, caption) = self.scene(index);
        let mut words = [&[0], numbers(&caption).as_slice()].concat();
        words.resize(LENGTH + 1, 0);
        Ok(Sample::new()
            .with("image", Array::new(pixels, &[28, 56])?)
            .with("words", Array::vector(words[..LENGTH].to_vec()))
            .with("next", Array::vector(words[1..].to_vec())))
    }
}

#[derive(Module)]
struct Captioner {
    eye: Sequential,
    /// Where in the image something was seen.
    places: Variable,
    words: Embedding,
    /// Where in the caption a word stands.
    positions: Variable,
    decoder: TransformerDecoder,
    out: Linear,
}

impl Captioner {
    fn new() -> Result<Captioner> {
        let block = |inputs: usize, outputs: usize| -> Result<Sequential> {
            let same = ConvOptions { padding: 1.into(), ..Default::default() };
            Ok(Sequential::new()
                .with(Conv2d::without_bias(inputs, outputs, [3, 3], same)?)
                .with(BatchNorm::new(outputs)?)
                .with(Relu)
                .with(MaxPool2d::new(2)))
        };
        let options = TransformerOptions { inner: 2 * WIDTH, dropout: 0.0, norm_first: true, ..Default::default() };
        Ok(Captioner {
            eye: Sequential::new().with(block(1, 16)?).with(block(16, 32)?).with(block(32, WIDTH)?),
            places: Variable::new("places", Tensor::randn([3 * 7, WIDTH]) * 0.02)?,
            words: Embedding::new(WORDS.len(), WIDTH)?,
            positions: Variable::new("positions", Tensor::randn([LENGTH, WIDTH]) * 0.02)?,
            decoder: TransformerDecoder::new(WIDTH, 4, 2, options)?,
            out: Linear::new(WIDTH, WORDS.len())?,
        })
    }
    /// Images `u8[N, 28, 56]` and the words so far `[N, LENGTH]` to the scores of each next word.
    fn forward(&self, images: &Tensor, words: &Tensor) -> Tensor {
        let seen = self.eye.forward(&(images.cast(DType::F32).unsqueeze(1) / 255.0));
        let seen = seen.flatten(2, -1).transpose(1, 2) + self.places.tensor();
        let written = self.words.forward(words) + self.positions.tensor();
        let causal = AttentionOptions { causal: true, ..Default::default() };
        self.out.forward(&self.decoder.forward(&written, &seen, causal, AttentionOptions::default()))
    }
    /// Captions of images, each word the likeliest after those before it.
    fn write(&self, images: &Tensor) -> Result<Vec<String>> {
        let [count, _, _] = images.dims()?;
        let mut words = vec![0i64; count * LENGTH];
        for i in 1..LENGTH {
            let scores = self.forward(images, &Tensor::new([count, LENGTH], &words));
            let next = scores.select(1, i as i64 - 1).argmax(-1).to_vec::<i64>()?;
            next.iter().enumerate().for_each(|(row, word)| words[row * LENGTH + i] = *word);
        }
        let caption = |row: &[i64]| {
            let words = row[1..].iter().map(|w| WORDS[*w as usize]).take_while(|w| !w.is_empty());
            words.collect::<Vec<_>>().join(" ")
        };
        Ok(words.chunks(LENGTH).map(caption).collect())
    }
}

fn main() -> Result<()> {
    manual_seed(0);
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let (epochs, count, tested) = if is_quick { (1, 128, 20) } else { (6, 15_000, 500) };
    let scenes = Scenes { digits: Digits::new(0, 0), count };
    let mut train = Loader::builder(scenes).batch(64).shuffle(0).drop_last(true).workers(1).build()?;
    // Another seed: none of the test digits was trained on.
    let test = Scenes { digits: Digits::new(1, 0), count: tested };

    let model = Captioner::new()?;
    let optimizer = Optimizer::new(AdamW::default(), &model)?;
    let schedule = OneCycle::new(2e-3, epochs * train.batches());
    Trainer::new(&model, &optimizer, &mut train)
        .epochs(epochs)
        .schedule(schedule)
        .clip_norm(1.0)
        .evaluate(Every::Epoch, || Ok(vec![("right".into(), right(&model, &test)?)]))
        .report(Bar::new())
        .fit_jit(&["image", "words", "next"], |batch| {
            let scores = model.forward(&batch[0], &batch[1]).flatten(0, 1);
            Ok(scores.cross_entropy(&batch[2].flatten(0, 1)))
        })?;

    model.train(false);
    for index in 0..3 {
        let (pixels, _) = test.scene(index);
        let caption = no_grad(|| model.write(&Tensor::new([1, 28, 56], &pixels)))?.remove(0);
        println!("{}{caption}\n", rendering::ascii(&pixels, 56));
    }
    Ok(())
}

/// Portion of captions that are right in every word.
fn right(model: &Captioner, test: &Scenes) -> Result<f64> {
    let (pixels, captions): (Vec<_>, Vec<_>) = (0..test.len()).map(|i| test.scene(i)).unzip();
    let written = model.write(&Tensor::new([test.len(), 28, 56], &pixels.concat()))?;
    Ok(written.iter().zip(&captions).filter(|(a, b)| a == b).count() as f64 / test.len() as f64)
}

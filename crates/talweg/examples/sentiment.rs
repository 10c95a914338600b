//! A GRU classifies the sentiment of sentences: variable-length sequences, and a custom data set.
//!
//! ```text
//! cargo run --release -p talweg --example sentiment -- "the plot was not bad but the acting was dull"
//! ```
//! The sentences come from a small grammar with "not", "but" and "although", so the same words can mean
//! either, and counting words does not help. After 2 epochs over 5,000 of them, a second on two cores,
//! it classifies **all** of 500 held-out sentences correctly. Then it classifies those of the command
//! line.

use talweg::data::random::Random;
use talweg::data::{self, Array, Collate, Sample};
use talweg::loss::Reduction;
use talweg::nn::metrics::Auc;
use talweg::nn::train::Metrics;
use talweg::nn::{Gru, RecurrentOptions};
use talweg::{Bar, prelude::*};

const THINGS: [&str; 6] = ["plot", "acting", "music", "ending", "cast", "camera"];
const DEGREES: [&str; 4] = ["very", "rather", "really", "quite"];
const DENIALS: [&str; 3] = ["not", "never", "hardly"];
const KIND: [&str; 6] = ["good", "great", "lovely", "clever", "moving", "funny"];
const UNKIND: [&str; 6] = ["bad", "awful", "dull", "clumsy", "boring", "silly"];
const LINKS: [&str; 4] = ["the", "was", "but", "although"];

/// All words; a word's token is its place, counted from 1. 0 fills up short sentences.
fn words() -> impl Iterator<Item = &'static str> {
    [&THINGS[..], &DEGREES, &DENIALS, &KIND, &UNKIND, &LINKS].into_iter().flatten().copied()
}

fn tokens(sentence: &str) -> Result<Vec<i64>> {
    let token = |word: &str| {
        let place = words().position(|w| w == word).map(|at| at as i64 + 1);
        place.ok_or_else(|| Error::value(format!("{word:?} is not among the words {:?}", words().collect::<Vec<_>>())))
    };
    sentence.split_whitespace().map(token).collect()
}

/// Reviews that are made up when they are asked for, each by its number.
struct Reviews {
    seed: u64,
    count: usize,
}

impl Reviews {
    /// "the plot was not very good", and whether that is kind.
    fn clause(random: &mut Random) -> (String, bool) {
        let [is_kind, is_denied, has_degree] = [(); 3].map(|()| random.coin(0.5));
        let mut any = |words: &[&'static str]| words[random.below(words.len() as u64) as usize];
        let mut clause = vec!["the", any(&THINGS), "was"];
        clause.extend(is_denied.then(|| any(&DENIALS)));
        clause.extend(has_degree.then(|| any(&DEGREES)));
        clause.push(any(if is_kind { &KIND } else { &UNKIND }));
        (clause.join(" "), is_kind != is_denied)
    }
    /// One or two clauses, and whether the one that counts is kind.
    fn review(&self, index: usize) -> (String, bool) {
        let mut random = Random::new(self.seed, 0, index as u64);
        let ((a, a_kind), (b, b_kind)) = (Self::clause(&mut random), Self::clause(&mut random));
        match random.below(4) {
            0 => (a, a_kind),
            1 => (format!("{a} but {b}"), b_kind),
            2 => (format!("{a} although {b}"), a_kind),
            _ => (format!("although {a} {b}"), b_kind),
        }
    }
}

impl Dataset for Reviews {
    fn len(&self) -> usize {
        self.count
    }
    fn get(&self, index: usize) -> data::Result<Sample> {
        let (review, is_kind) = self.review(index);
        let tokens = tokens(&review).map_err(|e| data::Error::mismatch(e.to_string()))?;
        Ok(Sample::new().with("tokens", Array::vector(tokens)).with("kind", Array::scalar(is_kind as i64)))
    }
}

#[derive(Module)]
struct Critic {
    words: Embedding,
    gru: Gru,
    out: Linear,
}

impl Critic {
    fn new() -> Result<Critic> {
        let options = RecurrentOptions { batch_first: true, ..Default::default() };
        Ok(Critic {
            words: Embedding::new(words().count() + 1, 16)?,
            gru: Gru::with(16, 32, options)?,
            out: Linear::new(32, 1)?,
        })
    }
    /// Tokens `[N, T]` to the logit of kindness `[N]`.
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let lengths = tokens.ne(0).sum(1);
        let (_, state) = self.gru.run_lengths(&self.words.forward(tokens), &lengths, None)?;
        Ok(self.out.forward(&state[0].select(0, -1)).squeeze(-1))
    }
}

fn main() -> Result<()> {
    manual_seed(0);
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let (epochs, count) = if is_quick { (1, 640) } else { (2, 5_000) };
    // Lengths are rounded up to multiples of 8: three shapes of batches, three traces.
    let load = |seed, count| Loader::builder(Reviews { seed, count }).collate(Collate::Pad { value: 0.0, multiple: 8 });
    let mut train = load(0, count).batch(32).shuffle(0).drop_last(true).build()?;
    let mut test = load(1, count / 10).batch(100).build()?;

    let model = Critic::new()?;
    let optimizer = Optimizer::new(Adam { lr: 5e-3, ..Adam::default() }, &model)?;
    Trainer::new(&model, &optimizer, &mut train)
        .epochs(epochs)
        .evaluate(Every::Epoch, || judged(&model, &mut test))
        .report(Bar::new())
        .fit_jit(&["tokens", "kind"], |batch| {
            let kind = batch[1].cast(DType::F32);
            Ok(model.forward(&batch[0])?.binary_cross_entropy_with_logits(&kind, None, None, Reduction::Mean))
        })?;

    for sentence in std::env::args().skip(1) {
        let tokens = tokens(&sentence)?;
        let kindness = no_grad(|| model.forward(&Tensor::new([1, tokens.len()], &tokens)))?.sigmoid();
        println!("{sentence}: {:.1} % kind", 100.0 * kindness.item::<f32>()?);
    }
    Ok(())
}

/// How many sentences are judged right, and how well kind ones are told from others.
fn judged(model: &Critic, test: &mut Loader) -> Result<Metrics> {
    let (mut auc, mut right, mut count) = (Auc::default(), 0.0, 0);
    for batch in test {
        let batch = batch?;
        let (logits, kind) = (model.forward(&batch.column("tokens")?)?, batch.column("kind")?);
        auc.update(&logits, &kind)?;
        right += logits.gt(0.0).eq(&kind.cast(DType::Bool)).cast(DType::F32).sum(..).item::<f64>()?;
        count += batch.len();
    }
    Ok(vec![("accuracy".into(), right / count as f64), ("auc".into(), auc.value())])
}

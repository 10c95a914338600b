//! Models and runs that tests of meshes share.
#![allow(dead_code, reason = "each test takes a part")]

use nn::optim::{Adam, Optimizer};
use nn::{Embedding, Layer, LayerNorm, Linear, Module};
use std::thread;
use talweg_parallel::{Job, mesh_in_process};
use tensor::nn::AttentionOptions;
use tensor::{Inserted, Jit, Mesh, Plan, Result, Tensor, jit, manual_seed, with_mesh};

/// What `#[derive(Module)]` writes in programs that use the façade.
macro_rules! module {
    ($name:ident: $($field:ident),*) => {
        impl Module for $name {
            fn visit(&self, path: &str, visitor: &mut dyn nn::Visitor) {
                $( self.$field.visit(&nn::join(path, stringify!($field)), visitor); )*
            }
        }
    };
}
module!(Mlp: fc1, fc2);
module!(Block: norm1, q, k, v, o, norm2, fc1, fc2);
module!(Gpt: tokens, blocks, norm);

pub struct Mlp {
    pub fc1: Linear,
    pub fc2: Linear,
}
impl Mlp {
    pub fn new() -> Result<Mlp> {
        Ok(Mlp { fc1: Linear::new(6, 16)?, fc2: Linear::new(16, 3)? })
    }
    pub fn forward(&self, x: &Tensor) -> Tensor {
        self.fc2.forward(&self.fc1.forward(x).relu())
    }
}

pub struct Block {
    pub norm1: LayerNorm,
    pub q: Linear,
    pub k: Linear,
    pub v: Linear,
    pub o: Linear,
    pub norm2: LayerNorm,
    pub fc1: Linear,
    pub fc2: Linear,
}
pub const WIDTH: usize = 16;
pub const HEADS: usize = 4;
pub const WORDS: usize = 11;
pub const LENGTH: usize = 8;
pub const BATCH: usize = 8;

/// The sizes of a GPT and of its batch.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub layers: usize,
    pub width: usize,
    pub words: usize,
    pub length: usize,
    pub batch: usize,
}
impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { layers: 2, width: WIDTH, words: WORDS, length: LENGTH, batch: BATCH }
    }
}

impl Block {
    pub fn new() -> Result<Block> {
        Block::of(WIDTH)
    }
    pub fn of(width: usize) -> Result<Block> {
        let square = || Linear::new(width, width);
        Ok(Block {
            norm1: LayerNorm::new(&[width])?,
            q: square()?,
            k: square()?,
            v: square()?,
            o: square()?,
            norm2: LayerNorm::new(&[width])?,
            fc1: Linear::new(width, 4 * width)?,
            fc2: Linear::new(4 * width, width)?,
        })
    }
    pub fn forward(&self, x: &Tensor, dropout: f64) -> Tensor {
        let heads = |l: &Linear, x: &Tensor| l.forward(x).unflatten(-1, &[HEADS as i64, -1]).transpose(1, 2);
        let h = self.norm1.forward(x);
        let causal = AttentionOptions { causal: true, ..Default::default() };
        let y = heads(&self.q, &h).attention(&heads(&self.k, &h), &heads(&self.v, &h), causal);
        let x = x + self.o.forward(&y.transpose(1, 2).flatten(-2, -1)).dropout(dropout, &tensor::generator::next_key());
        &x + self.fc2.forward(&self.fc1.forward(&self.norm2.forward(&x)).gelu())
    }
}

pub struct Gpt {
    pub tokens: Embedding,
    pub blocks: Vec<Block>,
    pub norm: LayerNorm,
}
impl Gpt {
    pub fn new(layers: usize) -> Result<Gpt> {
        Gpt::of(Sizes { layers, ..Sizes::default() })
    }
    pub fn of(sizes: Sizes) -> Result<Gpt> {
        Ok(Gpt {
            tokens: Embedding::new(sizes.words, sizes.width)?,
            blocks: (0..sizes.layers).map(|_| Block::of(sizes.width)).collect::<Result<_>>()?,
            norm: LayerNorm::new(&[sizes.width])?,
        })
    }
    pub fn loss(&self, input: &Tensor, target: &Tensor, dropout: f64) -> Tensor {
        let x = self.blocks.iter().fold(self.tokens.forward(input), |x, b| b.forward(&x, dropout));
        // The embedding's table is used once more.
        let scores = self.norm.forward(&x).linear(&self.tokens.weight.tensor(), None);
        scores.flatten(0, 1).cross_entropy(&target.flatten(0, 1))
    }
}

/// What a run ends with: losses, and all parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub losses: Vec<f32>,
    pub weights: Vec<f32>,
}

pub fn weights(model: &dyn Module) -> Result<Vec<f32>> {
    let all = model.parameters().iter().map(|v| v.tensor().to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
    Ok(all.concat())
}

/// A jitted step with its arguments.
pub trait Step {
    /// What ranks exchange.
    fn exchanges(&self) -> Vec<Inserted>;
    /// The most microbatches that this rank held.
    fn held(&self) -> usize;
    /// What was compiled.
    fn explain(&self) -> String;
}
impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Step for (&Jit<F>, [&Tensor; 2]) {
    fn exchanges(&self) -> Vec<Inserted> {
        self.0.exchanges(&self.1).unwrap()
    }
    fn held(&self) -> usize {
        self.0.microbatches_held(&self.1).unwrap()
    }
    fn explain(&self) -> String {
        self.0.explain(&self.1).unwrap()
    }
}

pub fn gpt(layers: usize, steps: usize, dropout: f64, clip: Option<f64>) -> Result<(End, Vec<Inserted>)> {
    train(layers, steps, dropout, clip, |s| s.exchanges())
}

/// Trains a GPT; `see` sees the step at the end.
pub fn train<T>(
    layers: usize,
    steps: usize,
    dropout: f64,
    clip: Option<f64>,
    see: impl FnOnce(&dyn Step) -> T,
) -> Result<(End, T)> {
    train_of(Sizes { layers, ..Sizes::default() }, steps, dropout, clip, see)
}

/// The same for a GPT of any size.
pub fn train_of<T>(
    sizes: Sizes,
    steps: usize,
    dropout: f64,
    clip: Option<f64>,
    see: impl FnOnce(&dyn Step) -> T,
) -> Result<(End, T)> {
    manual_seed(5);
    let Sizes { words, length, batch, .. } = sizes;
    let model = Gpt::of(sizes)?;
    let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, &model)?;
    let step = jit(|a: &[Tensor]| {
        let loss = model.loss(&a[0], &a[1], dropout);
        loss.backward()?;
        if let Some(norm) = clip {
            nn::optim::clip_grad_norm(&model.parameters(), norm)?;
        }
        optimizer.step()?;
        Ok(vec![loss])
    });
    let word = |i: usize| ((i * i * 7 + i * 3) % words) as i64;
    let text: Vec<i64> = (0..batch * length).map(word).collect();
    let next: Vec<i64> = (0..batch * length).map(|i| word(i + 1)).collect();
    let (x, y) = (Tensor::new([batch, length], &text), Tensor::new([batch, length], &next));
    let losses = (0..steps).map(|_| step.call(&[&x, &y])?[0].item::<f32>()).collect::<Result<_>>()?;
    let end = End { losses, weights: weights(&model)? };
    Ok((end, see(&(&step, [&x, &y]))))
}

/// Runs a program on every rank of a mesh, as threads; all must end alike.
pub fn on_mesh<T: PartialEq + std::fmt::Debug + Send + 'static>(
    mesh: &str,
    plan: &Plan,
    f: impl Fn() -> Result<(T, Vec<Inserted>)> + Clone + Send + 'static,
) -> (T, Vec<Inserted>) {
    let scopes = mesh_in_process(&Mesh::parse(mesh).unwrap(), plan).unwrap();
    let threads: Vec<_> = scopes
        .into_iter()
        .map(|scope| {
            let f = f.clone();
            thread::spawn(move || Job::alone().scope(|| with_mesh(scope, || f().unwrap_or_else(|e| panic!("{e}")))))
        })
        .collect();
    let mut all: Vec<(T, Vec<Inserted>)> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let first = all.remove(0);
    all.iter().for_each(|(end, _)| assert_eq!(*end, first.0, "{mesh}: ranks differ"));
    first
}

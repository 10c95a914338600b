//! Building blocks of language models. Weights are constants of the program that reads them, so that they may stay
//! quantized; adapters are variables.

use super::config::{Activation, Config, Experts};
use super::packed::{Packed, PackedExperts, Typed};
use super::weights::{Matrix, Source, Weight};
use ir::{DType, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::ThreadId;
use tensor::{Tensor, Variable};

/// A low-rank adapter: `x Aᵀ Bᵀ · scale` is added to the result of a linear layer.
#[derive(Clone, Debug)]
pub struct Lora {
    /// `[rank, in]`.
    pub a: Variable,
    /// `[out, rank]`.
    pub b: Variable,
    /// α / rank.
    pub scale: f64,
    /// Several adapters side by side, of which each token uses one.
    pub chosen: Option<Chosen>,
}

/// The weights of adapters side by side for each token of a pass, `[tokens, adapters · rank]`; none are used outside of
/// one, nor by passes of other threads.
#[derive(Clone, Debug, Default)]
pub struct Chosen(Arc<Mutex<Option<(ThreadId, Tensor)>>>);

impl Chosen {
    /// Begins or ends a pass.
    pub fn set(&self, weights: Option<Tensor>) {
        *self.0.lock() = weights.map(|w| (std::thread::current().id(), w));
    }
}

impl Lora {
    /// What is added to the result for x.
    fn added(&self, x: &Tensor) -> Option<Tensor> {
        let [a, b] = [&self.a, &self.b].map(|w| alike(&w.tensor(), x));
        let inner = x.linear(&a, None);
        match &self.chosen {
            None => Some(inner.linear(&b, None) * self.scale),
            Some(chosen) => {
                let chosen = chosen.0.lock();
                let own = chosen.as_ref().filter(|c| c.0 == std::thread::current().id());
                own.map(|(_, w)| (inner * alike(w, x)).linear(&b, None))
            }
        }
    }
}

/// x Wᵀ + b.
#[derive(Debug)]
pub struct Linear {
    /// Its name in GGUF, without the ending.
    pub name: String,
    /// W.
    pub weight: Matrix,
    /// b.
    pub bias: Option<Weight>,
    /// An adapter.
    pub lora: Option<Lora>,
    packed: Packed,
    typed: Typed,
}

impl Linear {
    /// Reads `name.weight` and, if it is there, `name.bias`.
    pub fn load(source: &dyn Source, name: &str) -> Result<Linear> {
        let bias = format!("{name}.bias");
        let bias = if source.has(&bias) { Some(source.floats(&bias)?.into()) } else { None };
        let (name, weight) = (name.to_string(), source.matrix(&format!("{name}.weight"))?);
        Ok(Linear { name, weight, bias, lora: None, packed: Packed::default(), typed: Typed::default() })
    }
    /// Reads it if it is there.
    pub fn find(source: &dyn Source, name: &str) -> Result<Option<Linear>> {
        if source.has(&format!("{name}.weight")) { Linear::load(source, name).map(Some) } else { Ok(None) }
    }
    /// Its result.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.packed.apply(&[&self.weight], x).and_then(|mut all| all.pop());
        self.finished(x, y.unwrap_or_else(|| self.weight.apply(x)))
    }
    /// The results of several layers with one input, in one GEMM where that is possible.
    pub fn forward_all(all: &[&Linear], packed: &Packed, x: &Tensor) -> Vec<Tensor> {
        let weights: Vec<&Matrix> = all.iter().map(|l| &l.weight).collect();
        match packed.apply(&weights, x) {
            Some(products) => all.iter().zip(products).map(|(l, y)| l.finished(x, y)).collect(),
            None => all.iter().map(|l| l.forward(x)).collect(),
        }
    }
    /// Makes its weights variables.
    pub fn learn(&mut self, to: &mut Vec<(String, Variable)>) -> Result<()> {
        self.weight.learn(&format!("{}.weight", self.name), to)?;
        self.bias.iter_mut().try_for_each(|b| b.learn(&format!("{}.bias", self.name), to))
    }
    /// A product with what comes after it.
    fn finished(&self, x: &Tensor, mut y: Tensor) -> Tensor {
        if let Some(b) = &self.bias {
            y = y + self.typed.of(b, x);
        }
        if let Some(more) = self.lora.as_ref().and_then(|l| l.added(x)) {
            y = y + more;
        }
        y
    }
}

/// A weight in the type of x.
fn alike(w: &Tensor, x: &Tensor) -> Tensor {
    x.dtype().map_or_else(|_| w.clone(), |dtype| w.cast(dtype))
}

/// RMS norm or LayerNorm over the last axis.
#[derive(Debug)]
pub struct Norm {
    name: String,
    weight: Weight,
    bias: Option<Weight>,
    /// Weight and bias.
    typed: [Typed; 2],
    eps: f64,
    is_layer_norm: bool,
}

impl Norm {
    /// Reads `name.weight` and, if it is there, `name.bias`.
    pub fn load(source: &dyn Source, name: &str, eps: f64, is_layer_norm: bool) -> Result<Norm> {
        let weight = source.floats(&format!("{name}.weight"))?.into();
        let bias = format!("{name}.bias");
        let bias = if source.has(&bias) { Some(source.floats(&bias)?.into()) } else { None };
        Ok(Norm { name: name.to_string(), weight, bias, typed: Default::default(), eps, is_layer_norm })
    }
    /// Reads it if it is there.
    pub fn find(source: &dyn Source, name: &str, c: &Config) -> Result<Option<Norm>> {
        if !source.has(&format!("{name}.weight")) {
            return Ok(None);
        }
        Norm::load(source, name, c.eps, c.is_layer_norm).map(Some)
    }
    /// Its result.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let weight = self.typed[0].of(&self.weight, x);
        if self.is_layer_norm {
            let bias = self.bias.as_ref().map(|b| self.typed[1].of(b, x));
            x.layer_norm(1, Some(&weight), bias.as_ref(), self.eps)
        } else {
            x.rms_norm(1, Some(&weight), self.eps)
        }
    }
    /// Makes its weights variables.
    pub fn learn(&mut self, to: &mut Vec<(String, Variable)>) -> Result<()> {
        self.weight.learn(&format!("{}.weight", self.name), to)?;
        self.bias.iter_mut().try_for_each(|b| b.learn(&format!("{}.bias", self.name), to))
    }
}

impl Activation {
    /// Elementwise.
    pub fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Silu => x.silu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Gelu => x.gelu(),
        }
    }
}

/// A feed-forward network, gated or not.
#[derive(Debug)]
pub struct Mlp {
    /// The gate.
    pub gate: Option<Linear>,
    /// Up; the gate comes first in it if it is not apart but the network is gated.
    pub up: Linear,
    /// Down.
    pub down: Linear,
    is_fused: bool,
    activation: Activation,
    /// Gate and up.
    packed: Packed,
}

impl Mlp {
    /// Reads `{at}_gate{tail}` and so on.
    pub fn load(source: &dyn Source, at: &str, tail: &str, c: &Config) -> Result<Mlp> {
        let gate = Linear::find(source, &format!("{at}_gate{tail}"))?;
        let fused = format!("{at}_gate_up{tail}");
        let is_fused_apart = source.has(&format!("{fused}.weight"));
        let up = if is_fused_apart { fused } else { format!("{at}_up{tail}") };
        let up = Linear::load(source, &up)?;
        let down = Linear::load(source, &format!("{at}_down{tail}"))?;
        let is_fused = gate.is_none() && up.weight.sizes()?.0 == 2 * down.weight.sizes()?.1;
        Ok(Mlp { gate, up, down, is_fused, activation: c.activation, packed: Packed::default() })
    }
    /// Its result.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let inner = match &self.gate {
            Some(gate) => {
                let both = Linear::forward_all(&[gate, &self.up], &self.packed, x);
                self.activation.apply(&both[0]) * &both[1]
            }
            None if self.is_fused => {
                let up = self.up.forward(x);
                let half = up.shape().map_or(0, |s| s.last().copied().unwrap_or(0) / 2);
                self.activation.apply(&up.narrow(-1, 0, half)) * up.narrow(-1, half, half)
            }
            None => self.activation.apply(&self.up.forward(x)),
        };
        self.down.forward(&inner)
    }
    /// Bytes of its matrices in memory.
    pub fn byte_count(&self) -> usize {
        self.gate.iter().chain([&self.up, &self.down]).map(|l| l.weight.byte_count()).sum()
    }
    /// Its linear layers.
    pub fn linears(&mut self) -> impl Iterator<Item = &mut Linear> {
        self.gate.iter_mut().chain([&mut self.up, &mut self.down])
    }
}

/// Experts of which a router chooses a few for each token.
#[derive(Debug)]
pub struct Moe {
    /// Before the names of its matrices.
    at: String,
    router: Linear,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
    /// Used by every token, with a gate of its own.
    shared: Option<(Mlp, Option<Linear>)>,
    experts: Experts,
    activation: Activation,
    /// Gate and up.
    packed: Packed,
    /// Gate, up and down.
    each: [PackedExperts; 3],
}

impl Moe {
    /// Reads the experts of the layer at `at`.
    pub fn load(source: &dyn Source, at: &str, c: &Config, experts: Experts) -> Result<Moe> {
        let matrix = |name: &str| source.matrix(&format!("{at}_{name}_exps.weight"));
        let has_shared = source.has(&format!("{at}_up_shexp.weight"));
        let shared = if has_shared {
            Some((Mlp::load(source, at, "_shexp", c)?, Linear::find(source, &format!("{at}_gate_inp_shexp"))?))
        } else {
            None
        };
        Ok(Moe {
            at: at.to_string(),
            router: Linear::load(source, &format!("{at}_gate_inp"))?,
            gate: matrix("gate")?,
            up: matrix("up")?,
            down: matrix("down")?,
            shared,
            experts,
            activation: c.activation,
            packed: Packed::default(),
            each: Default::default(),
        })
    }

    /// Makes its weights variables.
    pub fn learn(&mut self, to: &mut Vec<(String, Variable)>) -> Result<()> {
        self.router.learn(to)?;
        for (name, m) in [("gate", &mut self.gate), ("up", &mut self.up), ("down", &mut self.down)] {
            m.learn(&format!("{}_{name}_exps.weight", self.at), to)?;
        }
        let Some((mlp, gate)) = &mut self.shared else { return Ok(()) };
        mlp.linears().chain(gate).try_for_each(|l| l.learn(to))
    }
    /// Weights of all experts.
    pub fn parameters(&self) -> usize {
        let count = |m: &&Matrix| m.sizes().map_or(0, |(rows, columns)| rows * columns);
        [&self.gate, &self.up, &self.down].iter().map(count).sum()
    }
    /// Bytes of its matrices in memory.
    pub fn byte_count(&self) -> usize {
        let shared = self.shared.as_ref().map_or(0, |s| s.0.byte_count());
        [&self.router.weight, &self.gate, &self.up, &self.down].map(Matrix::byte_count).iter().sum::<usize>() + shared
    }

    /// The weights of the experts that each token uses, and which they are: both `[tokens, used]`.
    fn chosen(&self, x: &Tensor) -> [Tensor; 2] {
        let p = self.router.forward(x).softmax(-1);
        let [values, index] = p.top_k(self.experts.used, -1);
        let values = if self.experts.is_normalized { &values / values.sum_keep(&[-1i64][..]) } else { values };
        [values, index]
    }

    /// What the experts that each token uses add up to. `None` where they cannot be computed alone.
    fn sparse(&self, x: &Tensor, [values, index]: &[Tensor; 2]) -> Result<Option<Tensor>> {
        let (shape, used, n) = (x.shape()?, self.experts.used, self.experts.count);
        let (tokens, hidden) = (shape[0], shape[1]);
        let rows = x.unsqueeze(1).broadcast_to([tokens, used, hidden]).reshape([tokens * used, hidden]);
        let index = &index.reshape([tokens * used]);
        let [gate, up, down] = &self.each;
        let both = gate.apply(&self.gate, n, &rows, index).zip(up.apply(&self.up, n, &rows, index));
        let Some((gate, up)) = both else { return Ok(None) };
        let inner = self.activation.apply(&gate) * up;
        let Some(out) = down.apply(&self.down, n, &inner, index) else { return Ok(None) };
        let weights = alike(&values.unsqueeze(-1), x);
        Ok(Some((out.reshape([tokens, used, hidden]) * weights).sum(1)))
    }

    /// The same where every expert computes every token, and the weights choose: gradients reach all of them.
    fn dense(&self, x: &Tensor, [values, index]: &[Tensor; 2]) -> Result<Tensor> {
        let (shape, n) = (x.shape()?, self.experts.count);
        let (tokens, hidden) = (shape[0], shape[1]);
        let both = self.packed.apply(&[&self.gate, &self.up], x);
        let both = both.unwrap_or_else(|| vec![self.gate.apply(x), self.up.apply(x)]);
        let inner = self.activation.apply(&both[0]) * &both[1];
        let width = inner.shape()?[1] / n;
        // The experts' shares of `down` stand below each other: [experts, hidden, width].
        let down = self.down.floats().reshape([n, hidden, width]);
        let inner = inner.reshape([tokens, n, width]).permute(&[1, 0, 2]);
        let out = inner.matmul(down.permute(&[0, 2, 1]));
        let weights = (index.one_hot(n, DType::F32) * values.unsqueeze(-1)).sum(-2);
        Ok((out * weights.permute(&[1, 0]).unsqueeze(-1)).sum(0))
    }

    /// The result for `[tokens, hidden]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let chosen = self.chosen(x);
        let mut y = match self.sparse(x, &chosen)? {
            Some(y) => y,
            None => self.dense(x, &chosen)?,
        };
        if let Some((mlp, gate)) = &self.shared {
            let s = mlp.forward(x);
            y = y + match gate {
                Some(g) => s * g.forward(x).sigmoid(),
                None => s,
            };
        }
        Ok(y)
    }
}

/// The feed-forward part of a layer.
#[derive(Debug)]
pub enum FeedForward {
    /// One network.
    Dense(Box<Mlp>),
    /// Experts.
    Experts(Box<Moe>),
}

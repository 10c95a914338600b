//! A decoder: what Llama, Mistral, Qwen, Gemma, GPT-2, Phi and Mixtral have in common. What tells them apart is in
//! [`Config`], or in which weights a file has.

use super::attend::{Attend, Scores};
use super::config::Config;
use super::layers::{FeedForward, Linear, Mlp, Moe, Norm};
use super::packed::{Packed, is_on_host};
use super::weights::{Matrix, Source, Weight};
use ir::{DType, Result};
use tensor::control::checkpoint;
use tensor::{Tensor, Variable};

/// A layer.
#[derive(Debug)]
pub struct Layer {
    attn_norm: Norm,
    /// Queries, keys and values; one matrix or three.
    qkv: Vec<Linear>,
    packed: Packed,
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
    output: Linear,
    /// After attention, before it is added.
    post_attn: Option<Norm>,
    ffn_norm: Option<Norm>,
    ffn: FeedForward,
    post_ffn: Option<Norm>,
}

/// A decoder with its weights.
#[derive(Debug)]
pub struct Decoder {
    /// Its shape.
    pub config: Config,
    embedding: Matrix,
    positions: Option<Weight>,
    layers: Vec<Layer>,
    norm: Norm,
    /// None: the embedding is the head as well.
    head: Option<Linear>,
    /// Divisors of rotary frequencies.
    rope_factors: Option<Vec<f32>>,
    /// The type of the residual stream: f32 on a CPU, 16 bits on a GPU.
    dtype: DType,
    packed: Packed,
    /// Gradients compute a layer's inner values again instead of keeping them.
    pub checkpoints: bool,
}

/// Cosines and sines `[tokens, 1, dims / 2]`.
type Angles = [Tensor; 2];

impl Decoder {
    /// Reads the weights.
    pub fn load(source: &dyn Source, config: Config) -> Result<Decoder> {
        let c = &config;
        let layers = (0..c.layers).map(|i| Layer::load(source, i, c)).collect::<Result<Vec<_>>>()?;
        let position = "position_embd.weight";
        let positions = if source.has(position) { Some(source.floats(position)?.into()) } else { None };
        let factors = "rope_freqs.weight";
        let rope_factors = if source.has(factors) { Some(source.floats(factors)?.to_vec::<f32>()?) } else { None };
        let embedding = source.matrix("token_embd.weight")?.placed()?;
        let dtype = match &embedding {
            _ if is_on_host() => DType::F32,
            Matrix::Dense(w) => w.tensor().dtype()?,
            Matrix::Blocks { .. } => DType::BF16,
        };
        Ok(Decoder {
            embedding,
            positions,
            layers,
            norm: Norm::load(source, "output_norm", c.eps, c.is_layer_norm)?,
            head: Linear::find(source, "output")?,
            rope_factors,
            dtype,
            packed: Packed::default(),
            checkpoints: false,
            config,
        })
    }
    /// Tokens of the vocabulary.
    pub fn vocabulary(&self) -> Result<usize> {
        Ok(self.embedding.sizes()?.0)
    }
    /// Whether the embedding is the head as well.
    pub fn is_tied(&self) -> bool {
        self.head.is_none()
    }
    /// Width of the feed-forward networks, which must be dense.
    pub fn inner(&self) -> Result<usize> {
        let dense = |l: &Layer| if let FeedForward::Dense(m) = &l.ffn { m.down.weight.sizes().ok() } else { None };
        let inner = self.layers.first().and_then(dense).map(|(_, columns)| columns);
        inner.ok_or_else(|| ir::Error::value("mixtures of experts are not saved as folders"))
    }
    /// Weights that every token is multiplied with.
    pub fn parameters(&self) -> usize {
        let count = |l: &Linear| l.weight.sizes().map_or(0, |(rows, columns)| rows * columns);
        let layer = |l: &Layer| {
            let ffn: usize = match &l.ffn {
                FeedForward::Dense(m) => m.gate.iter().chain([&m.up, &m.down]).map(count).sum(),
                FeedForward::Experts(m) => m.parameters(),
            };
            ffn + l.qkv.iter().chain([&l.output]).map(count).sum::<usize>()
        };
        let head = self.embedding.sizes().map_or(0, |(rows, columns)| rows * columns);
        head + self.layers.iter().map(layer).sum::<usize>()
    }
    /// Bytes of weights that a step reads: all but the table of tokens, of which it reads rows.
    pub fn step_bytes(&self) -> usize {
        let layer = |l: &Layer| {
            let ffn: usize = match &l.ffn {
                FeedForward::Dense(m) => m.byte_count(),
                FeedForward::Experts(m) => m.byte_count(),
            };
            ffn + l.qkv.iter().chain([&l.output]).map(|l| l.weight.byte_count()).sum::<usize>()
        };
        let head = self.head.as_ref().map_or(self.embedding.byte_count(), |h| h.weight.byte_count());
        head + self.layers.iter().map(layer).sum::<usize>()
    }
    /// Bytes of the matrices in memory.
    pub fn byte_count(&self) -> usize {
        let layer = |l: &Layer| {
            let ffn = match &l.ffn {
                FeedForward::Dense(mlp) => mlp.byte_count(),
                FeedForward::Experts(moe) => moe.byte_count(),
            };
            l.qkv.iter().chain([&l.output]).map(|l| l.weight.byte_count()).sum::<usize>() + ffn
        };
        let head = self.head.as_ref().map_or(0, |h| h.weight.byte_count());
        self.embedding.byte_count() + head + self.layers.iter().map(layer).sum::<usize>()
    }
    /// Linear layers that adapters can be added to.
    pub fn linears(&mut self) -> impl Iterator<Item = &mut Linear> {
        self.layers.iter_mut().flat_map(|l| {
            let ffn: Box<dyn Iterator<Item = &mut Linear>> = match &mut l.ffn {
                FeedForward::Dense(mlp) => Box::new(mlp.linears()),
                FeedForward::Experts(_) => Box::new(std::iter::empty()),
            };
            l.qkv.iter_mut().chain([&mut l.output]).chain(ffn)
        })
    }

    /// The same, to read them.
    pub fn adaptable(&self) -> impl Iterator<Item = &Linear> {
        self.layers.iter().flat_map(|l| {
            let ffn: Vec<&Linear> = match &l.ffn {
                FeedForward::Dense(m) => m.gate.iter().chain([&m.up, &m.down]).collect(),
                FeedForward::Experts(_) => Vec::new(),
            };
            l.qkv.iter().chain([&l.output]).chain(ffn)
        })
    }
    /// Makes every weight a variable of 32-bit floats; returns them by their names in GGUF.
    pub fn learn(&mut self) -> Result<Vec<(String, Variable)>> {
        if self.rope_factors.is_some() {
            return Err(ir::Error::value(
                "a GGUF file with factors of rotary frequencies cannot be trained as a whole",
            ));
        }
        let mut all = Vec::new();
        self.embedding.learn("token_embd.weight", &mut all)?;
        self.positions.iter_mut().try_for_each(|p| p.learn("position_embd.weight", &mut all))?;
        self.layers.iter_mut().try_for_each(|l| l.learn(&mut all))?;
        self.norm.learn(&mut all)?;
        self.head.iter_mut().try_for_each(|h| h.learn(&mut all))?;
        Ok(all)
    }

    fn angles(&self, positions: &Tensor, base: f64) -> Result<Option<Angles>> {
        let Some(rope) = &self.config.rope else { return Ok(None) };
        let mut f = rope.frequencies(base);
        if let Some(factors) = &self.rope_factors {
            f.iter_mut().zip(factors).for_each(|(f, d)| *f /= d);
        }
        let width = f.len();
        let frequencies = Tensor::from(ir::Literal::new([1, width], &f)?);
        let angle = positions.cast(DType::F32).unsqueeze(-1) * frequencies;
        let angle = angle.unsqueeze(1);
        let part =
            |a: Tensor| if rope.attention_factor == 1.0 || base != rope.base { a } else { a * rope.attention_factor };
        Ok(Some([angle.cos(), angle.sin()].map(|a| part(a).cast(self.dtype))))
    }

    /// The residual stream after the last norm, `[tokens, hidden]`, of tokens at these positions (both i32
    /// `[tokens]`).
    pub fn hidden(&self, tokens: &Tensor, positions: &Tensor, attend: &dyn Attend) -> Result<Tensor> {
        let c = &self.config;
        let mut x = self.embedding.rows(tokens, self.dtype);
        if c.embedding_scale != 1.0 {
            x = x * c.embedding_scale;
        }
        if let Some(p) = &self.positions {
            x = x + p.tensor().embedding(positions).cast(self.dtype);
        }
        let base = c.rope.as_ref().map_or((0.0, 0.0), |r| (r.base, r.local_base));
        let global = self.angles(positions, base.0)?;
        let local = if base.0 == base.1 { global.clone() } else { self.angles(positions, base.1)? };
        for (i, layer) in self.layers.iter().enumerate() {
            let window = c.layer_window(i);
            let angles = if window > 0 { &local } else { &global };
            let scores = Scores { scale: c.attention_scale, window, softcap: c.attention_softcap };
            let forward =
                |x: &Tensor| layer.forward(x, c, angles.as_ref(), &|q, k, v| attend.attend(i, q, k, v, scores));
            x = match self.checkpoints {
                true => checkpoint(|a| Ok(vec![forward(&a[0])?]), &[x])?.remove(0),
                false => forward(&x)?,
            };
        }
        Ok(self.norm.forward(&x))
    }

    /// Logits `[rows, vocabulary]` of such rows, f32.
    pub fn logits(&self, hidden: &Tensor) -> Tensor {
        self.capped(&self.scores(hidden))
    }
    /// Logits from scores.
    pub fn capped(&self, scores: &Tensor) -> Tensor {
        let (z, cap) = (scores.cast(DType::F32), self.config.final_softcap);
        if cap > 0.0 { (z / cap).tanh() * cap } else { z }
    }
    /// Logits before they are capped, in the type of the residual stream. The same element is the greatest.
    pub fn scores(&self, hidden: &Tensor) -> Tensor {
        match &self.head {
            Some(head) => head.forward(hidden),
            None => {
                let one = self.packed.apply(&[&self.embedding], hidden).and_then(|mut all| all.pop());
                one.unwrap_or_else(|| self.embedding.apply(hidden))
            }
        }
    }
}

/// Attention of queries with keys and values `[tokens, heads, head_dim]`.
type Attention<'a> = &'a dyn Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

impl Layer {
    fn load(source: &dyn Source, i: usize, c: &Config) -> Result<Layer> {
        let at = |name: &str| format!("blk.{i}.{name}");
        let linear = |name: &str| Linear::load(source, &at(name));
        let norm = |name: &str| Norm::find(source, &at(name), c);
        let qkv = match Linear::find(source, &at("attn_qkv"))? {
            Some(all) => vec![all],
            None => vec![linear("attn_q")?, linear("attn_k")?, linear("attn_v")?],
        };
        let ffn = match c.experts {
            Some(e) if source.has(&at("ffn_gate_exps.weight")) => {
                FeedForward::Experts(Box::new(Moe::load(source, &at("ffn"), c, e)?))
            }
            _ => FeedForward::Dense(Box::new(Mlp::load(source, &at("ffn"), "", c)?)),
        };
        Ok(Layer {
            attn_norm: Norm::load(source, &at("attn_norm"), c.eps, c.is_layer_norm)?,
            qkv,
            packed: Packed::default(),
            q_norm: norm("attn_q_norm")?,
            k_norm: norm("attn_k_norm")?,
            output: linear("attn_output")?,
            post_attn: norm("post_attention_norm")?,
            ffn_norm: norm("ffn_norm")?,
            ffn,
            post_ffn: norm("post_ffw_norm")?,
        })
    }

    fn learn(&mut self, to: &mut Vec<(String, Variable)>) -> Result<()> {
        let norms = [&mut self.q_norm, &mut self.k_norm, &mut self.post_attn, &mut self.ffn_norm, &mut self.post_ffn];
        std::iter::once(&mut self.attn_norm).chain(norms.into_iter().flatten()).try_for_each(|n| n.learn(to))?;
        self.qkv.iter_mut().chain([&mut self.output]).try_for_each(|l| l.learn(to))?;
        match &mut self.ffn {
            FeedForward::Dense(mlp) => mlp.linears().try_for_each(|l| l.learn(to)),
            FeedForward::Experts(moe) => moe.learn(to),
        }
    }

    fn forward(&self, x: &Tensor, c: &Config, angles: Option<&Angles>, attention: Attention) -> Result<Tensor> {
        let normed = self.attn_norm.forward(x);
        let mut a = self.attend(&normed, c, angles, attention)?;
        if let Some(n) = &self.post_attn {
            a = n.forward(&a);
        }
        if c.is_parallel {
            let f = match &self.ffn_norm {
                Some(n) => self.feed(&n.forward(x))?,
                None => self.feed(&normed)?,
            };
            return Ok(x + a + f);
        }
        let x = x + a;
        let normed = self.ffn_norm.as_ref().map_or_else(|| x.clone(), |n| n.forward(&x));
        let mut f = self.feed(&normed)?;
        if let Some(n) = &self.post_ffn {
            f = n.forward(&f);
        }
        Ok(x + f)
    }

    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        match &self.ffn {
            FeedForward::Dense(mlp) => Ok(mlp.forward(x)),
            FeedForward::Experts(moe) => moe.forward(x),
        }
    }

    fn attend(&self, x: &Tensor, c: &Config, angles: Option<&Angles>, attention: Attention) -> Result<Tensor> {
        let (t, d) = (x.shape()?[0], c.head_dim);
        let widths = [c.heads * d, c.kv_heads * d, c.kv_heads * d];
        let [q, k, v] = match &self.qkv[..] {
            [all] => {
                let all = all.forward(x);
                let part = |i: usize| all.narrow(-1, widths[..i].iter().sum(), widths[i]);
                [part(0), part(1), part(2)]
            }
            [q, k, v] => match <[Tensor; 3]>::try_from(Linear::forward_all(&[q, k, v], &self.packed, x)) {
                Ok(all) => all,
                Err(_) => return Err(ir::Error::bug("three products were asked for")),
            },
            _ => return Err(ir::Error::bug("queries, keys and values are one matrix or three")),
        };
        let heads = |y: Tensor, n: usize, norm: &Option<Norm>| {
            let y = y.reshape([t, n, d]);
            norm.as_ref().map_or_else(|| y.clone(), |n| n.forward(&y))
        };
        let (mut q, mut k) = (heads(q, c.heads, &self.q_norm), heads(k, c.kv_heads, &self.k_norm));
        if let (Some(angles), Some(rope)) = (angles, &c.rope) {
            (q, k) = (
                rotated(&q, angles, rope.dims, rope.is_interleaved),
                rotated(&k, angles, rope.dims, rope.is_interleaved),
            );
        }
        let y = attention(&q, &k, &v.reshape([t, c.kv_heads, d]))?;
        Ok(self.output.forward(&y.reshape([t, c.heads * d])))
    }
}

/// The first `dims` of each head rotated.
fn rotated(x: &Tensor, [cos, sin]: &Angles, dims: usize, is_interleaved: bool) -> Tensor {
    let width = x.shape().map_or(dims, |s| s[2]);
    if dims == width {
        return x.rope(cos, sin, is_interleaved);
    }
    let first = x.narrow(-1, 0, dims).rope(cos, sin, is_interleaved);
    Tensor::concat(&[first, x.narrow(-1, dims, width - dims)], -1)
}

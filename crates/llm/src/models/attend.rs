//! How queries meet keys: whole sequences side by side (training, evaluation), or pages of a KV cache (serving).

use ir::Result;
use tensor::Tensor;
use tensor::nn::AttentionOptions;

/// How scores are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Multiplied by.
    pub scale: f64,
    /// Tokens that are seen, the query's own included; 0: all before it.
    pub window: usize,
    /// `c tanh(x / c)`; 0: not.
    pub softcap: f64,
}

/// Causal attention of one layer.
pub trait Attend {
    /// The result `[tokens, heads, head_dim]` for queries of that shape and keys and values `[tokens, kv_heads,
    /// head_dim]`.
    fn attend(&self, layer: usize, q: &Tensor, k: &Tensor, v: &Tensor, scores: Scores) -> Result<Tensor>;
}

/// Sequences of equal length, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Sequences {
    /// How many.
    pub count: usize,
    /// Tokens of each.
    pub length: usize,
}

impl Attend for Sequences {
    fn attend(&self, _: usize, q: &Tensor, k: &Tensor, v: &Tensor, s: Scores) -> Result<Tensor> {
        let (n, l) = (self.count, self.length);
        let (heads, kv_heads, d) = (q.shape()?[1], k.shape()?[1], q.shape()?[2]);
        let apart = |x: &Tensor, heads: usize| x.reshape([n, l, heads, d]).permute(&[0, 2, 1, 3]);
        let (q, k, v) = (apart(q, heads), apart(k, kv_heads), apart(v, kv_heads));
        let y = if s.softcap == 0.0 && (s.window == 0 || s.window >= l) {
            let options = AttentionOptions { causal: true, scale: Some(s.scale), grouped: true, ..Default::default() };
            q.attention(&k, &v, options)
        } else {
            let q = q.reshape([n, kv_heads, heads / kv_heads, l, d]);
            let mut z = q.matmul(k.permute(&[0, 1, 3, 2]).unsqueeze(2)) * s.scale;
            if s.softcap > 0.0 {
                z = (z / s.softcap).tanh() * s.softcap;
            }
            let seen = |i: usize, j: usize| j <= i && (s.window == 0 || i - j < s.window);
            let bias: Vec<f32> = (0..l * l).map(|x| if seen(x / l, x % l) { 0.0 } else { -1e30 }).collect();
            let bias = Tensor::from(ir::Literal::new([l, l], &bias)?).cast(z.dtype()?);
            let p = (z + bias).softmax(-1);
            p.matmul(v.unsqueeze(2)).reshape([n, heads, l, d])
        };
        Ok(y.permute(&[0, 2, 1, 3]).reshape([n * l, heads, d]))
    }
}

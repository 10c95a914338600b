//! A GPT by its sizes.

/// A decoder with learned places and tied embeddings, as GPT-3 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpt {
    /// Layers.
    pub layers: usize,
    /// Width.
    pub hidden: usize,
    /// Attention heads.
    pub heads: usize,
    /// Tokens of a sequence.
    pub sequence: usize,
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Experts of each feed-forward layer; 1: none.
    pub experts: usize,
    /// Experts that a token goes to.
    pub chosen: usize,
}

impl Default for Gpt {
    /// GPT-3 with 175 billion parameters.
    fn default() -> Gpt {
        Gpt { layers: 96, hidden: 12288, heads: 96, sequence: 2048, vocabulary: 51200, experts: 1, chosen: 1 }
    }
}

impl Gpt {
    /// Parameters of one layer.
    pub fn layer_parameters(&self) -> f64 {
        self.shared_parameters() + self.experts as f64 * self.expert_parameters()
    }
    /// Those of them that are of no expert: attention, norms and the router.
    pub(crate) fn shared_parameters(&self) -> f64 {
        let (h, router) = (self.hidden as f64, if self.experts > 1 { self.experts as f64 } else { 0.0 });
        4.0 * h * h + 8.0 * h + router * h
    }
    /// Those of one expert.
    pub(crate) fn expert_parameters(&self) -> f64 {
        let h = self.hidden as f64;
        8.0 * h * h + 5.0 * h
    }
    /// Parameters.
    pub fn parameters(&self) -> f64 {
        self.layers as f64 * self.layer_parameters() + (self.vocabulary + self.sequence) as f64 * self.hidden as f64
    }
    /// Operations of a step of `batch` sequences, forward and backward, nothing computed twice (Narayanan and others
    /// 2021).
    pub fn operations(&self, batch: usize) -> f64 {
        let (l, h, s) = (self.layers as f64, self.hidden as f64, self.sequence as f64);
        // A token meets the weights of the experts that it goes to.
        let dense = (4.0 + 8.0 * self.chosen as f64) / 12.0;
        72.0 * batch as f64 * l * s * h * h * (dense + s / (6.0 * h) + self.vocabulary as f64 / (12.0 * h * l))
    }
    /// Operations of the products of one layer forward, for `micro` sequences cut among `tensor` ranks.
    pub(crate) fn products(&self, micro: usize, tensor: usize) -> [f64; 6] {
        let (s, h) = (self.sequence as f64, self.hidden as f64);
        let (dense, scores) = (micro as f64 * s * h * h / tensor as f64, micro as f64 * s * s * h / tensor as f64);
        let chosen = self.chosen as f64;
        [6.0 * dense, 2.0 * dense, 8.0 * dense * chosen, 8.0 * dense * chosen, 2.0 * scores, 2.0 * scores]
    }
    /// Bytes that the other ops of a layer move forward, in 16 bits.
    pub(crate) fn streamed(&self, micro: usize, tensor: usize, is_sequence: bool) -> f64 {
        let (b, s, h, a) = (micro as f64, self.sequence as f64, self.hidden as f64, self.heads as f64);
        let (t, norms) = (tensor as f64, if is_sequence { tensor as f64 } else { 1.0 });
        2.0 * b * s * h * (14.0 / norms + 26.0 / t) + 12.0 * b * a / t * s * s
    }
    /// Bytes of the result of a layer.
    pub(crate) fn boundary(&self, micro: usize) -> f64 {
        2.0 * (micro * self.sequence * self.hidden) as f64
    }
}

//! What the parts of a rank's program cost: regions and exchanges, as the partitioner lists them.

use crate::Cluster;

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every rank gets the combination of all.
    AllReduce,
    /// Every rank gets all parts.
    AllGather,
    /// Every rank gets its part of the combination.
    ReduceScatter,
    /// Every rank gets a part of each.
    AllToAll,
}

/// An exchange among ranks of a mesh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// What they do.
    pub pattern: Pattern,
    /// Bytes of the whole value.
    pub bytes: f64,
    /// How many ranks.
    pub ranks: usize,
    /// The distance between two of them.
    pub stride: usize,
}

/// A region of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Operations.
    pub flops: f64,
    /// Bytes that it reads and writes.
    pub bytes: f64,
    /// For products: whether their operands have 16 bits.
    pub product: Option<Bits>,
}

/// The operands of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// 16 bits or fewer.
    Half,
    /// More.
    Full,
}

impl Exchange {
    /// Bytes that a rank sends.
    pub fn sent(&self) -> f64 {
        let share = self.bytes * (self.ranks - 1) as f64 / self.ranks as f64;
        if self.pattern == Pattern::AllReduce { 2.0 * share } else { share }
    }
}

impl Cluster {
    /// The cluster as so many ranks see it: where a node is one processor, they share it.
    #[must_use]
    pub fn among(&self, ranks: usize) -> Cluster {
        let share = if self.is_shared { ranks.min(self.node()).max(1) as f64 } else { 1.0 };
        // A link is measured while two ranks use the processor.
        let links = (share / 2.0).max(1.0);
        let levels = self.levels.iter().map(|l| crate::Level { bandwidth: l.bandwidth / links, ..*l }).collect();
        Cluster {
            flops: self.flops / share,
            flops_f32: self.flops_f32 / share,
            bandwidth: self.bandwidth / share,
            memory: self.memory / share,
            half: self.half / share,
            levels,
            ..self.clone()
        }
    }
    /// Seconds of a region: what takes longer, its operations or its bytes.
    pub fn region_s(&self, r: &Region) -> f64 {
        let products = match r.product {
            None => 0.0,
            Some(Bits::Half) => self.product_s(r.flops),
            Some(Bits::Full) => (r.flops + self.half * self.flops_f32 / self.flops) / (self.flops_f32 * self.product),
        };
        self.launch + products.max(self.stream_s(r.bytes))
    }
    /// Seconds of an exchange.
    pub fn exchange_s(&self, e: &Exchange) -> f64 {
        let together = (self.node() / e.stride.max(1)).clamp(1, e.ranks);
        let once = self.gather_s(e.bytes, e.ranks, together);
        if e.pattern == Pattern::AllReduce { 2.0 * once } else { once }
    }
}

//! `Gcn` and `Gat`: layers over graphs, given as nodes `[N, inputs]` and edges `[2, E]`, whose first
//! row is where an edge comes from and whose second where it goes to.

use super::rows::{Parameter, Start, layer};
use crate::Linear;
use nn_derive::Module;
use tensor::{Combine, DType, Error, Result, Site, Tensor, Variable};

/// Sources and targets of the edges, with one more from each node to itself, and the number of nodes.
fn looped(x: &Tensor, edges: &Tensor) -> Result<(Tensor, Tensor, usize)> {
    let [nodes, _] = x.dims()?;
    let [two, _] = edges.dims()?;
    if two != 2 || edges.dtype()? != DType::I64 {
        let e = format!("edges must be i64[2, E], not {}{:?}", edges.dtype()?, edges.shape()?.dims());
        return Err(Error::shape(e));
    }
    let all = Tensor::iota(nodes, DType::I64);
    let row = |i: i64| Tensor::concat(&[edges.select(0, i), all.clone()], 0);
    Ok((row(0), row(1), nodes))
}

/// Graph convolution (Kipf and Welling 2017): D^-½ (A + I) D^-½ X Wᵀ + b.
///
/// Every node gets a self-loop: the given edges should have none. Names of parameters are
/// PyTorch Geometric's.
///
/// ```
/// # use talweg_nn::Gcn;
/// # use tensor::Tensor;
/// let gcn = Gcn::new(3, 2).unwrap();
/// // Two nodes joined in both directions, and one alone.
/// let y = gcn.forward(&Tensor::ones([3, 3]), &Tensor::from([[0i64, 1], [1, 0]]));
/// assert_eq!(y.dims().unwrap(), [3, 2]);
/// ```
#[derive(Module, Debug)]
pub struct Gcn {
    /// The map of each node.
    pub lin: Linear,
    /// `[outputs]`.
    pub bias: Variable,
}
layer! {
    GcnSettings {
        /// Size of a node of the input.
        in_channels: usize;
        /// Size of a node of the output.
        out_channels: usize;
        ..
    }
}
impl GcnSettings {
    fn parameters(&self) -> Result<[Parameter; 2]> {
        let (inputs, outputs) = (self.in_channels, self.out_channels);
        let bias = Parameter::new("bias", [outputs], Start::Zeros);
        Ok([Parameter::new("lin.weight", [outputs, inputs], Start::xavier(inputs, outputs)), bias])
    }
}
impl Gcn {
    /// Starts with Glorot's weights and no bias.
    pub fn new(inputs: usize, outputs: usize) -> Result<Gcn> {
        let [weight, bias] = GcnSettings::new(inputs, outputs).parameters()?;
        Ok(Gcn { lin: Linear { weight: weight.variable()?, bias: None }, bias: bias.variable()? })
    }
    /// Nodes `[N, inputs]` to `[N, outputs]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, edges: &Tensor) -> Tensor {
        let site = Site::here();
        let run = || {
            let (from, to, nodes) = looped(x, edges)?;
            let h = x.linear(&self.lin.weight.tensor(), None);
            let ones = Tensor::full_of([to.count()?], 1.0, h.dtype()?);
            let degree = Tensor::full_of([nodes], 0.0, h.dtype()?).index_add(0, &to, &ones);
            let scale = (1.0 / degree.sqrt()).unsqueeze(-1);
            // Both square roots belong to nodes, so they are applied to nodes, not to edges.
            let sent = (h * &scale).take(&from, 0);
            Ok(sent_to(&to, nodes, &sent)? * scale + self.bias.tensor())
        };
        site.scope(run).map_err(|e: Error| e.in_op("gcn").at(site)).into()
    }
}
/// The sum of the messages at each node.
fn sent_to(to: &Tensor, nodes: usize, sent: &Tensor) -> Result<Tensor> {
    let mut shape = sent.shape()?;
    shape.dims_mut()[0] = nodes;
    Ok(Tensor::full_of(shape, 0.0, sent.dtype()?).index_add(0, to, sent))
}

/// Graph attention (Veličković and others 2018): each node averages its neighbors and itself by
/// weights that depend on both ends.
///
/// Every node gets a self-loop: the given edges should have none. Names of parameters are
/// PyTorch Geometric's.
///
/// ```
/// # use talweg_nn::Gat;
/// # use tensor::Tensor;
/// let gat = Gat::new(3, 4, 2).unwrap();
/// let y = gat.forward(&Tensor::ones([3, 3]), &Tensor::from([[0i64, 1], [1, 0]]));
/// assert_eq!(y.dims().unwrap(), [3, 8]);
/// ```
#[derive(Module, Debug)]
pub struct Gat {
    /// The map of each node, to all heads.
    pub lin: Linear,
    /// Weights of the end an edge comes from, `[1, heads, outputs]`.
    pub att_src: Variable,
    /// Weights of the end an edge goes to, `[1, heads, outputs]`.
    pub att_dst: Variable,
    /// `[heads · outputs]`, or `[outputs]` where heads are averaged.
    pub bias: Variable,
    /// Heads are averaged instead of put side by side: for the last layer.
    average: bool,
    /// Slope of the leaky ReLU below zero.
    pub slope: f64,
}
layer! {
    GatSettings {
        /// Size of a node of the input.
        in_channels: usize;
        /// Size of a head's output.
        out_channels: usize;
        ..
        /// Number of heads.
        heads: usize = 1;
        /// Heads side by side; otherwise they are averaged.
        concat: bool = true;
    }
}
impl GatSettings {
    fn parameters(&self) -> Result<[Parameter; 4]> {
        let (inputs, outputs, heads) = (self.in_channels, self.out_channels, self.heads);
        let glorot = |name| Parameter::new(name, [1, heads, outputs], Start::xavier(outputs, heads));
        Ok([
            Parameter::new("lin.weight", [heads * outputs, inputs], Start::xavier(inputs, heads * outputs)),
            glorot("att_src"),
            glorot("att_dst"),
            Parameter::new("bias", [if self.concat { heads * outputs } else { outputs }], Start::Zeros),
        ])
    }
}
impl Gat {
    /// `heads` side by side, each `outputs` wide.
    pub fn new(inputs: usize, outputs: usize, heads: usize) -> Result<Gat> {
        Gat::with(inputs, outputs, heads, false)
    }
    /// `heads` averaged, for the last layer.
    pub fn averaged(inputs: usize, outputs: usize, heads: usize) -> Result<Gat> {
        Gat::with(inputs, outputs, heads, true)
    }
    fn with(inputs: usize, outputs: usize, heads: usize, average: bool) -> Result<Gat> {
        let settings = GatSettings { heads, concat: !average, ..GatSettings::new(inputs, outputs) };
        let [weight, att_src, att_dst, bias] = settings.parameters()?;
        Ok(Gat {
            lin: Linear { weight: weight.variable()?, bias: None },
            att_src: att_src.variable()?,
            att_dst: att_dst.variable()?,
            bias: bias.variable()?,
            average,
            slope: 0.2,
        })
    }
    /// Nodes `[N, inputs]` to `[N, heads · outputs]`, or `[N, outputs]` where heads are averaged.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, edges: &Tensor) -> Tensor {
        let site = Site::here();
        let run = || {
            let (from, to, nodes) = looped(x, edges)?;
            let [_, heads, width] = self.att_src.tensor().dims()?;
            let h = x.linear(&self.lin.weight.tensor(), None).reshape([nodes, heads, width]);
            let score = |a: &Variable| (&h * a.tensor()).sum(-1);
            let raw = score(&self.att_src).take(&from, 0) + score(&self.att_dst).take(&to, 0);
            let raw = raw.leaky_relu(self.slope);
            // Softmax over the edges that meet in a node; the largest is taken out, as ever.
            let index = to.unsqueeze(-1).broadcast_to(raw.shape()?);
            let none = Tensor::full_of([nodes, heads], 0.0, h.dtype()?);
            let top = none.scatter_reduce(0, &index, &raw.stop_gradient(), Combine::Max, false);
            let share = (raw - top.take(&to, 0)).exp();
            let share = &share / sent_to(&to, nodes, &share)?.take(&to, 0);
            let y = sent_to(&to, nodes, &(h.take(&from, 0) * share.unsqueeze(-1)))?;
            let y = if self.average { y.mean(1) } else { y.reshape([nodes, heads * width]) };
            Ok(y + self.bias.tensor())
        };
        site.scope(run).map_err(|e: Error| e.in_op("gat").at(site)).into()
    }
}

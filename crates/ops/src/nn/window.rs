//! How a window moves over the spatial dimensions: sizes for each axis, padding, and the options
//! of convolution and pooling.

use crate::{Error, Result, Tensor};
use ir::{Element, Literal, Shape, Site, Type, Value};
use smallvec::SmallVec;

/// One size for each spatial dimension.
pub type Sizes = SmallVec<[usize; 3]>;

/// One size for every spatial dimension (`2`), or one for each (`[2, 3]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerAxis(Sizes);

impl PerAxis {
    /// The sizes as given: one, or one for each dimension.
    pub fn sizes(&self) -> &[usize] {
        &self.0
    }
    /// One size for each of `rank` dimensions; a single number stands for all.
    pub fn resolve(&self, rank: usize, what: &str) -> Result<Sizes> {
        match self.0.len() {
            1 => Ok(SmallVec::from_elem(self.0[0], rank)),
            n if n == rank => Ok(self.0.clone()),
            n => Err(Error::value(format!("{what} has {n} sizes {:?} for {rank} spatial dimensions", self.0))),
        }
    }
    /// As [`PerAxis::resolve`], and each size must be at least 1.
    pub fn resolve_positive(&self, rank: usize, what: &str) -> Result<Sizes> {
        let sizes = self.resolve(rank, what)?;
        if sizes.contains(&0) {
            return Err(Error::value(format!("{what} must be at least 1 in each dimension, not {sizes:?}")));
        }
        Ok(sizes)
    }
}
impl From<usize> for PerAxis {
    fn from(n: usize) -> PerAxis {
        PerAxis(SmallVec::from_elem(n, 1))
    }
}
impl<const N: usize> From<[usize; N]> for PerAxis {
    fn from(n: [usize; N]) -> PerAxis {
        PerAxis(SmallVec::from_slice(&n))
    }
}
impl From<&[usize]> for PerAxis {
    fn from(n: &[usize]) -> PerAxis {
        PerAxis(SmallVec::from_slice(n))
    }
}
impl From<Vec<usize>> for PerAxis {
    fn from(n: Vec<usize>) -> PerAxis {
        PerAxis(SmallVec::from_vec(n))
    }
}

/// How much is put around the input of a convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// The same before and after.
    Even(PerAxis),
    /// Before and after, for each dimension; negative widths crop.
    Sides(Vec<(i64, i64)>),
    /// By name: `same` keeps the size (stride 1 only, the odd element goes after), `valid` is none.
    Named(String),
}
impl From<usize> for Padding {
    fn from(width: usize) -> Padding {
        Padding::Even(width.into())
    }
}
impl<const N: usize> From<[usize; N]> for Padding {
    fn from(widths: [usize; N]) -> Padding {
        Padding::Even(widths.into())
    }
}
impl From<PerAxis> for Padding {
    fn from(widths: PerAxis) -> Padding {
        Padding::Even(widths)
    }
}
impl From<&str> for Padding {
    fn from(name: &str) -> Padding {
        Padding::Named(name.to_string())
    }
}
impl From<Vec<(i64, i64)>> for Padding {
    fn from(sides: Vec<(i64, i64)>) -> Padding {
        Padding::Sides(sides)
    }
}

impl Padding {
    /// Widths before and after in each dimension, for a kernel of the given sizes.
    fn resolve(&self, kernel: &[usize], stride: &[usize], dilation: &[usize]) -> Result<(Vec<i64>, Vec<i64>)> {
        let rank = kernel.len();
        match self {
            Padding::Even(p) => {
                let p: Vec<i64> = p.resolve(rank, "padding")?.iter().map(|&p| p as i64).collect();
                Ok((p.clone(), p))
            }
            Padding::Sides(s) if s.len() == rank => Ok(s.iter().copied().unzip()),
            Padding::Sides(s) => {
                Err(Error::value(format!("padding has {} pairs for {rank} spatial dimensions", s.len())))
            }
            Padding::Named(name) if name == "valid" => Ok((vec![0; rank], vec![0; rank])),
            Padding::Named(name) if name == "same" => {
                if stride.iter().any(|&s| s != 1) {
                    return Err(Error::value(format!("padding \"same\" needs stride 1, not {stride:?}")));
                }
                let total = |i: usize| dilation[i].saturating_mul(kernel[i].saturating_sub(1)) as i64;
                Ok((0..rank).map(|i| (total(i) / 2, total(i) - total(i) / 2)).unzip())
            }
            Padding::Named(name) => {
                Err(Error::value(format!("padding must be widths, \"same\" or \"valid\", not {name:?}")))
            }
        }
    }
}

/// What a convolution takes beside its operands.
///
/// ```
/// # use talweg_ops::nn::ConvOptions;
/// let options = ConvOptions::new().stride(2).padding([1, 2]).groups(4);
/// let same = ConvOptions::new().padding("same");
/// # assert_ne!(options, same);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// Steps of the window.
    pub stride: PerAxis,
    /// What is put around the input.
    pub padding: Padding,
    /// Steps between the elements of the kernel.
    pub dilation: PerAxis,
    /// Input and output channels are divided into this many independent groups.
    pub groups: usize,
    /// Transposed convolution only: rows added at the end of the output.
    pub output_padding: PerAxis,
}
impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions { stride: 1.into(), padding: 0.into(), dilation: 1.into(), groups: 1, output_padding: 0.into() }
    }
}
impl ConvOptions {
    /// Stride 1, no padding, no dilation, one group.
    pub fn new() -> ConvOptions {
        ConvOptions::default()
    }
    /// With these steps of the window.
    pub fn stride(self, stride: impl Into<PerAxis>) -> ConvOptions {
        ConvOptions { stride: stride.into(), ..self }
    }
    /// With this padding: widths, `"same"` or `"valid"`.
    pub fn padding(self, padding: impl Into<Padding>) -> ConvOptions {
        ConvOptions { padding: padding.into(), ..self }
    }
    /// With these steps between the elements of the kernel.
    pub fn dilation(self, dilation: impl Into<PerAxis>) -> ConvOptions {
        ConvOptions { dilation: dilation.into(), ..self }
    }
    /// With channels divided into this many groups.
    pub fn groups(self, groups: usize) -> ConvOptions {
        ConvOptions { groups, ..self }
    }
    /// With this many rows added at the end of a transposed convolution's output.
    pub fn output_padding(self, output_padding: impl Into<PerAxis>) -> ConvOptions {
        ConvOptions { output_padding: output_padding.into(), ..self }
    }
    /// The options for a kernel of the given sizes.
    pub(super) fn resolve(&self, kernel: &[usize]) -> Result<Resolved> {
        let rank = kernel.len();
        let stride = self.stride.resolve_positive(rank, "stride")?;
        let dilation = self.dilation.resolve_positive(rank, "dilation")?;
        let (lo, hi) = self.padding.resolve(kernel, &stride, &dilation)?;
        let output_padding = self.output_padding.resolve(rank, "output_padding")?;
        Ok(Resolved { stride, dilation, lo, hi, output_padding, groups: self.groups })
    }
}

/// Convolution options with one entry for each spatial dimension.
pub(super) struct Resolved {
    pub stride: Sizes,
    pub dilation: Sizes,
    pub lo: Vec<i64>,
    pub hi: Vec<i64>,
    pub output_padding: Sizes,
    pub groups: usize,
}

/// Runs `f` on an input `[N, C, *S]` with `rank` spatial dimensions; where the batch dimension is
/// missing, it is put on before and taken off the results after.
#[track_caller]
pub(super) fn spatial<const N: usize>(
    x: &Tensor,
    rank: usize,
    op: &str,
    f: impl FnOnce(&Tensor, &Type) -> Result<[Tensor; N]>,
) -> [Tensor; N] {
    let site = Site::here();
    let run = || -> Result<[Tensor; N]> {
        let shape = x.shape()?;
        if shape.rank() != rank + 1 && shape.rank() != rank + 2 {
            let e = format!("takes [N, C, {rank} sizes] or [C, {rank} sizes], but the input has shape {shape}");
            return Err(Error::shape(e).in_op(op));
        }
        if shape.rank() == rank + 2 {
            return f(x, x.value()?.ty());
        }
        let mut one = shape;
        one.insert(0, 1);
        let x = x.reshape(one);
        let outs = f(&x, x.value()?.ty())?;
        Ok(outs.map(|y| {
            y.then(|t| {
                let mut s = t.shape.clone();
                s.remove(0);
                Ok(y.reshape(s))
            })
        }))
    };
    match site.scope(run) {
        Ok(outs) => outs,
        Err(e) => {
            let t = Tensor::from(e.in_op(op).at(site));
            std::array::from_fn(|_| t.clone())
        }
    }
}

/// What max pooling takes beside the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxPoolOptions {
    /// Steps of the window; its own size if `None`.
    pub stride: Option<PerAxis>,
    /// Elements on both sides that never win; at most half of the window.
    pub padding: PerAxis,
    /// Steps between the elements of the window.
    pub dilation: PerAxis,
    /// Windows that reach beyond the end count as well.
    pub ceil_mode: bool,
}
impl Default for MaxPoolOptions {
    fn default() -> MaxPoolOptions {
        MaxPoolOptions { stride: None, padding: 0.into(), dilation: 1.into(), ceil_mode: false }
    }
}
impl MaxPoolOptions {
    /// Windows side by side, no padding, no dilation.
    pub fn new() -> MaxPoolOptions {
        MaxPoolOptions::default()
    }
    /// With these steps of the window.
    pub fn stride(self, stride: impl Into<PerAxis>) -> MaxPoolOptions {
        MaxPoolOptions { stride: Some(stride.into()), ..self }
    }
    /// With this padding on both sides.
    pub fn padding(self, padding: impl Into<PerAxis>) -> MaxPoolOptions {
        MaxPoolOptions { padding: padding.into(), ..self }
    }
    /// With these steps between the elements of the window.
    pub fn dilation(self, dilation: impl Into<PerAxis>) -> MaxPoolOptions {
        MaxPoolOptions { dilation: dilation.into(), ..self }
    }
    /// With windows that reach beyond the end.
    pub fn ceil_mode(self, ceil_mode: bool) -> MaxPoolOptions {
        MaxPoolOptions { ceil_mode, ..self }
    }
}

/// What average pooling takes beside the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvgPoolOptions {
    /// Steps of the window; its own size if `None`.
    pub stride: Option<PerAxis>,
    /// Zeros on both sides; at most half of the window.
    pub padding: PerAxis,
    /// Windows that reach beyond the end count as well.
    pub ceil_mode: bool,
    /// Zeros of the padding count in the average.
    pub count_include_pad: bool,
    /// What the sums are divided by, instead of the number of elements.
    pub divisor_override: Option<i64>,
}
impl Default for AvgPoolOptions {
    fn default() -> AvgPoolOptions {
        AvgPoolOptions {
            stride: None,
            padding: 0.into(),
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }
}
impl AvgPoolOptions {
    /// Windows side by side, no padding.
    pub fn new() -> AvgPoolOptions {
        AvgPoolOptions::default()
    }
    /// With these steps of the window.
    pub fn stride(self, stride: impl Into<PerAxis>) -> AvgPoolOptions {
        AvgPoolOptions { stride: Some(stride.into()), ..self }
    }
    /// With this padding on both sides.
    pub fn padding(self, padding: impl Into<PerAxis>) -> AvgPoolOptions {
        AvgPoolOptions { padding: padding.into(), ..self }
    }
    /// With windows that reach beyond the end.
    pub fn ceil_mode(self, ceil_mode: bool) -> AvgPoolOptions {
        AvgPoolOptions { ceil_mode, ..self }
    }
    /// Whether zeros of the padding count in the average.
    pub fn count_include_pad(self, count_include_pad: bool) -> AvgPoolOptions {
        AvgPoolOptions { count_include_pad, ..self }
    }
    /// With sums divided by this.
    pub fn divisor_override(self, divisor: i64) -> AvgPoolOptions {
        AvgPoolOptions { divisor_override: Some(divisor), ..self }
    }
}

/// Windows over the spatial dimensions, resolved.
pub(super) struct Windows {
    pub window: Sizes,
    pub stride: Sizes,
    pub padding: Sizes,
    pub dilation: Sizes,
    pub out: Sizes,
}

impl Windows {
    /// Checks the options of a pooling over `sizes`, and counts the windows.
    pub(super) fn new(
        sizes: &[usize],
        window: &PerAxis,
        stride: Option<&PerAxis>,
        padding: &PerAxis,
        dilation: &PerAxis,
        ceil_mode: bool,
    ) -> Result<Windows> {
        let rank = sizes.len();
        let window = window.resolve_positive(rank, "window")?;
        let stride = match stride {
            Some(s) => s.resolve_positive(rank, "stride")?,
            None => window.clone(),
        };
        let padding = padding.resolve(rank, "padding")?;
        let dilation = dilation.resolve_positive(rank, "dilation")?;
        if let Some(i) = (0..rank).find(|&i| padding[i] > window[i] / 2) {
            let e = format!("padding {} must be at most half of the window {}", padding[i], window[i]);
            return Err(Error::value(e));
        }
        let count = |i: usize| -> Result<usize> {
            let [size, k, s, p, d] = [sizes[i], window[i], stride[i], padding[i], dilation[i]].map(|x| x as i128);
            let room = size + 2 * p - d * (k - 1) - 1 + if ceil_mode { s - 1 } else { 0 };
            let mut n = room.div_euclid(s) + 1;
            // The last window must start inside the input or the padding before it.
            if ceil_mode && (n - 1) * s >= size + p {
                n -= 1;
            }
            if n < 1 {
                let e = format!("a window {window:?} does not fit into {sizes:?} padded by {padding:?}");
                return Err(Error::shape(e));
            }
            Ok(n as usize)
        };
        let out = (0..rank).map(count).collect::<Result<_>>()?;
        Ok(Windows { window, stride, padding, dilation, out })
    }
}

/// `x` with one axis multiplied by a matrix `[size, out]`.
pub(super) fn along_axis(x: &Tensor, axis: usize, matrix: &Tensor) -> Tensor {
    x.then(|t| {
        let matrix = matrix.cast(t.dtype);
        let last = t.shape.rank() as i64 - 1;
        Ok(x.transpose(axis as i64, last).matmul(&matrix).transpose(axis as i64, last))
    })
}

/// A table with more elements than this is not baked into a graph.
const TABLE_MAX: usize = 1 << 28;

/// Fails where a table of these sizes would fill the memory; their product otherwise.
pub(super) fn table_size(sizes: &[usize]) -> Result<usize> {
    match sizes.iter().fold(1usize, |a, &d| a.saturating_mul(d)) {
        n if n <= TABLE_MAX => Ok(n),
        _ => Err(Error::shape(format!(
            "a table of sizes {sizes:?} is needed, but more than {TABLE_MAX} entries are too many"
        ))),
    }
}

/// How far windows reach along a dimension, from the start of the padding to the end of the last
/// window, refused where indices could overflow.
pub(super) fn reach(out: usize, stride: usize, window: usize, dilation: usize, padding: usize) -> Result<usize> {
    let span = |n: usize, step: usize| n.saturating_sub(1).saturating_mul(step);
    let reach = span(out, stride).saturating_add(span(window, dilation)).saturating_add(1);
    if reach.saturating_add(padding) <= isize::MAX as usize / 4 {
        return Ok(reach);
    }
    Err(Error::shape(format!(
        "{out} windows of {window} elements, {stride} apart with dilation {dilation} and padding {padding}, reach too far"
    )))
}

/// A table baked into the graph.
#[track_caller]
pub(super) fn table<T: Element>(shape: impl Into<Shape>, data: &[T]) -> Tensor {
    let site = Site::here();
    match Literal::new(shape, data) {
        Ok(l) => Value::constant(l, site).into(),
        Err(e) => e.at(site).into(),
    }
}

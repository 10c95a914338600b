//! `im2col`: the windows of an image as columns (PyTorch's `nn.functional.unfold`).

use super::window::{ConvOptions, PerAxis, Sizes, reach, spatial};
use crate::rules::{by_expansion, expand, f64s, floats, product};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape, Value};

/// The attributes of windows, one entry for each spatial dimension.
pub(super) const ATTRS: [(&str, AttrKind); 4] =
    [("window", AttrKind::Ints), ("stride", AttrKind::Ints), ("padding", AttrKind::Ints), ("dilation", AttrKind::Ints)];

/// The row of `im2col`.
pub static OP: Op = Op {
    name: "im2col",
    doc: "The windows of x[N, C, *S], with `padding` zeros on both sides, as columns: [N, C · window, number of windows].",
    attrs: &ATTRS,
    infer: |c| {
        c.arity(1)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    cases: || {
        let x = f64s([1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        vec![
            Case::new(vec![floats([1, 2, 3, 4], 1)], attrs(&[2, 2], &[1, 2], &[1, 0], &[2, 1])),
            Case::new(vec![floats([2, 1, 5], 2)], attrs(&[2], &[2], &[1], &[2])),
            Case::new(vec![x], attrs(&[2, 2], &[1, 1], &[0, 0], &[1, 1]))
                .expect(vec![f64s([1, 4, 2], &[1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

/// Attributes as a row of cases writes them.
pub(super) fn attrs(window: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64]) -> Attrs {
    Attrs::new().with("window", window).with("stride", stride).with("padding", padding).with("dilation", dilation)
}

/// The windows over an image, checked.
pub(super) struct Columns {
    pub window: Sizes,
    pub stride: Sizes,
    pub padding: Sizes,
    pub dilation: Sizes,
    /// How many windows there are along each dimension.
    pub out: Sizes,
}

impl Columns {
    pub(super) fn new(attrs: &Attrs, sizes: &[usize]) -> Result<Columns> {
        let list = |name| -> Result<Sizes> { Ok(attrs.sizes(name)?.as_slice().into()) };
        let (window, stride, padding, dilation) =
            (list("window")?, list("stride")?, list("padding")?, list("dilation")?);
        let rank = sizes.len();
        if rank == 0 || [&window, &stride, &padding, &dilation].iter().any(|l| l.len() != rank) {
            return Err(Error::value(format!("attributes must have one entry for each of {rank} spatial dimensions")));
        }
        if window.contains(&0) || stride.contains(&0) || dilation.contains(&0) {
            return Err(Error::value("window, stride and dilation must be at least 1"));
        }
        let count = |i: usize| {
            // The padded size, and the stretch of a window.
            reach(1, 1, sizes[i], 1, padding[i].saturating_mul(2))?;
            reach(1, 1, window[i], dilation[i], 0)?;
            let room = sizes[i] as i128 + 2 * padding[i] as i128 - (dilation[i] as i128 * (window[i] as i128 - 1) + 1);
            if room < 0 {
                let e = format!(
                    "a window {window:?} with dilation {dilation:?} does not fit into {sizes:?} padded by {padding:?}"
                );
                return Err(Error::shape(e));
            }
            Ok((room / stride[i] as i128 + 1) as usize)
        };
        let out = (0..rank).map(count).collect::<Result<_>>()?;
        Ok(Columns { window, stride, padding, dilation, out })
    }
    /// From the first axis of one side to the other: [N, C, *a, *b] with a and b swapped.
    pub(super) fn swap(&self) -> Vec<i64> {
        let rank = self.out.len() as i64;
        [0, 1].into_iter().chain(rank + 2..2 * rank + 2).chain(2..rank + 2).collect()
    }
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let shape = c.shape(0);
    if shape.rank() < 3 {
        return Err(Error::shape(format!("takes [N, C, *S], not {shape}")));
    }
    let w = Columns::new(c.attrs, &shape[2..])?;
    expand(args, |v| {
        let pads: Vec<i64> = [0, 0].into_iter().chain(w.padding.iter().map(|&p| p as i64)).collect();
        let mut y = if w.padding.iter().all(|&p| p == 0) { v[0].clone() } else { v[0].pad_raw(&pads, &pads, 0.0) };
        for i in 0..w.out.len() {
            let span = w.dilation[i] * (w.window[i] - 1) + 1;
            y = y.unfold(i as i64 + 2, span, w.stride[i]);
            if w.dilation[i] > 1 {
                let s = y.shape()?;
                let mut sizes: Vec<i64> = s.iter().map(|&d| d as i64).collect();
                let mut steps = vec![1; s.rank()];
                sizes[s.rank() - 1] = w.window[i] as i64;
                steps[s.rank() - 1] = w.dilation[i] as i64;
                y = y.slice_raw(&vec![0; s.rank()], &sizes, &steps);
            }
        }
        let columns: Shape = [shape[0], product(w.window.iter().chain([&shape[1]]))?, product(&w.out)?].into();
        Ok(vec![y.permute(&w.swap()).reshape(columns)])
    })
}

impl Tensor {
    /// The windows of `[N, C, H, W]` (or `[C, H, W]`) as columns `[N, C · KH · KW, L]`. Of the
    /// options, stride, even padding and dilation count.
    #[track_caller]
    pub fn im2col(&self, window: impl Into<PerAxis>, options: ConvOptions) -> Tensor {
        let window = window.into();
        let [y] = spatial(self, 2, "im2col", |x, _| Ok([Tensor::apply1(&OP, &[x], resolved(&window, &options)?)]));
        y
    }
}

/// The attributes for two spatial dimensions.
pub(super) fn resolved(window: &PerAxis, options: &ConvOptions) -> Result<Attrs> {
    let window = window.resolve_positive(2, "window")?;
    let o = options.resolve(&window)?;
    if o.lo != o.hi || o.lo.iter().any(|&p| p < 0) || o.groups != 1 || o.output_padding.iter().any(|&p| p != 0) {
        return Err(Error::value("of the options, only stride, even padding and dilation count here"));
    }
    Ok(Attrs::new()
        .with("window", window.as_slice())
        .with("stride", o.stride.as_slice())
        .with("padding", &o.lo)
        .with("dilation", o.dilation.as_slice()))
}

//! `prod`: the product along axes.

use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Axes, Result, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Monoid, Op, Shape, Site};

/// The row of `prod`.
pub static OP: Op = Op {
    name: "prod",
    doc: "Product along axes, which keep size 1. Integers and bool are multiplied in 64 bits.",
    attrs: &[("axes", AttrKind::Ints)],
    infer: super::infer,
    meaning: Meaning::Reduce(Monoid::Prod),
    grad: Grad::Rule(|c| {
        let axes = c.attrs.sizes("axes")?;
        let shape = &c.inputs[0].ty().shape;
        if shape.count() == 0 {
            return grads([c.x(0)]);
        }
        // The reduced axes become one, the last.
        let mut order: Vec<i64> = (0..shape.rank()).filter(|d| !axes.contains(d)).map(|d| d as i64).collect();
        let kept = order.len();
        order.extend(axes.iter().map(|&a| a as i64));
        let moved: Shape = order.iter().map(|&d| shape[d as usize]).collect();
        let mut flat = Shape::new(&moved[..kept]);
        let mut single = flat.clone();
        flat.push(moved[kept..].iter().product());
        single.push(1);
        let dx = others(&c.x(0).permute(&order).reshape(flat), &c.g(0).reshape(single))?;
        let mut back = vec![0i64; order.len()];
        order.iter().enumerate().for_each(|(i, &a)| back[a as usize] = i as i64);
        grads([dx.reshape(moved).permute(&back)])
    }),
    batch: super::BATCH,
    autocast: ir::Autocast::Wide,
    complex: on_complex!(pairs::prod),
    cases: || {
        let over = |a: &[i64]| Attrs::new().with("axes", a);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], over(&[0, 2])),
            Case::new(vec![floats([3, 2], 2)], over(&[0])),
            // Zeros: the gradient there is the product of the others, which division cannot give.
            Case::new(vec![f64s([3, 3], &[0.0, 2.0, 3.0, 0.0, 0.0, 5.0, 1.5, -2.0, 4.0])], over(&[1])),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], over(&[1]))
                .expect(vec![f64s([2, 1], &[2.0, 12.0])], "NumPy manual: np.prod([[1., 2.], [3., 4.]], axis=1)"),
        ]
    },
    ..Op::DEFAULT
};

/// `g` times the product of all other elements along the last axis, for each element.
///
/// The product is taken as a tree of halves multiplied with each other and the gradient walks
/// down the tree, so that no element is divided by and the cost is linear.
fn others(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    let n = |t: &Tensor| -> Result<usize> { Ok(t.shape()?.last().copied().unwrap_or(1)) };
    let (mut levels, mut top) = (Vec::new(), x.clone());
    while n(&top)? > 1 {
        let half = n(&top)?.div_ceil(2);
        let rank = top.rank()?;
        let mut hi = vec![0; rank];
        hi[rank - 1] = (2 * half - n(&top)?) as i64;
        let even = if hi[rank - 1] == 0 { top.clone() } else { top.pad_raw(&vec![0; rank], &hi, 1.0) };
        let (a, b) = (even.narrow(-1, 0, half), even.narrow(-1, half, half));
        levels.push((a.clone(), b.clone(), n(&top)?));
        top = a * b;
    }
    let mut g = g.clone();
    for (a, b, size) in levels.into_iter().rev() {
        g = Tensor::concat(&[&g * b, &g * a], -1).narrow(-1, 0, size);
    }
    Ok(g)
}

impl Tensor {
    /// Product along axes (`..` for all), which are removed; integers and bool are multiplied in 64 bits.
    #[track_caller]
    pub fn prod(&self, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.prod_keep(axes.clone()).squeezed_after(self, &axes))
    }
    /// Product along axes, which keep size 1.
    #[track_caller]
    pub fn prod_keep(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| Ok(self.cast(t.dtype.sum_type()).reduce(&OP, &axes)))
    }
}

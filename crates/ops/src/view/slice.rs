//! `slice`: every n-th element of a range in each dimension.

use crate::rules::{GradTensors, f64s, floats, grads, one};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Layout, Meaning, Op, Shape};

/// The row of `slice`.
pub static OP: Op = Op {
    name: "slice",
    doc: "In each dimension, `sizes` elements from `starts` on, `steps` apart; negative steps walk backward.",
    attrs: &[("starts", AttrKind::Ints), ("sizes", AttrKind::Ints), ("steps", AttrKind::Ints)],
    infer: |c| {
        check(c)?;
        one(c.dtype(0), c.attrs.sizes("sizes")?.into_iter().collect::<Shape>())
    },
    meaning: Meaning::View(|c, l| {
        let (starts, steps) = (c.attrs.ints("starts")?, c.attrs.ints("steps")?);
        let sizes: Shape = c.attrs.sizes("sizes")?.into_iter().collect();
        if sizes.count() == 0 {
            return Ok(Some(Layout::contiguous(&sizes)));
        }
        let offset = l.offset as isize + starts.iter().zip(&l.strides).map(|(&a, &s)| a as isize * s).sum::<isize>();
        let strides = l.strides.iter().zip(steps).map(|(&s, &k)| s * k as isize).collect();
        Ok(Some(Layout { shape: sizes, strides, offset: offset as usize }))
    }),
    grad: Grad::Rule(|c| {
        grads([c.g(0).unslice(&c.inputs[0].ty().shape, c.attrs.ints("starts")?, c.attrs.ints("steps")?)])
    }),
    batch: Batch::Rule(|c| {
        let with = |first: i64, name| -> Result<Vec<i64>> {
            Ok(std::iter::once(first).chain(c.attrs.ints(name)?.iter().copied()).collect())
        };
        let (starts, sizes, steps) = (with(0, "starts")?, with(c.size as i64, "sizes")?, with(1, "steps")?);
        let attrs = Attrs::new().with("starts", &starts).with("sizes", &sizes).with("steps", &steps);
        Ok(vec![Tensor::apply1(&OP, &[&Tensor::from(c.inputs[0].clone())], attrs).value()?.clone()])
    }),
    resize: Some(|c, parts, outs| {
        // Where a dimension is dealt out, every rank has a part of what comes before.
        let (whole, part) = (c.shape(0), &parts[0].shape);
        let local = |(i, &s): (usize, &i64)| if whole[i] == 0 { s } else { s * part[i] as i64 / whole[i] as i64 };
        let starts: Vec<i64> = c.attrs.ints("starts")?.iter().enumerate().map(local).collect();
        Ok(c.attrs.clone().set("sizes", &outs[0]).set("starts", &starts))
    }),
    cases: || {
        let at = |a: &[i64], n: &[i64], s: &[i64]| Attrs::new().with("starts", a).with("sizes", n).with("steps", s);
        vec![
            Case::new(vec![floats([3, 5], 1)], at(&[2, 1], &[2, 2], &[-1, 2])),
            Case::new(vec![f64s([5], &[0.0, 1.0, 2.0, 3.0, 4.0])], at(&[1], &[2], &[2]))
                .expect(vec![f64s([2], &[1.0, 3.0])], "NumPy manual, basic slicing: x[1:5:2]"),
        ]
    },
    ..Op::DEFAULT
};

/// Fails unless every element named lies inside.
fn check(c: &Call) -> Result<()> {
    c.arity(1)?;
    let (starts, sizes, steps) = (c.attrs.ints("starts")?, c.attrs.sizes("sizes")?, c.attrs.ints("steps")?);
    let shape = c.shape(0);
    if [starts.len(), sizes.len(), steps.len()] != [shape.rank(); 3] {
        return Err(Error::value(format!("starts, sizes and steps must have one entry for each dimension of {shape}")));
    }
    for (i, &d) in shape.iter().enumerate() {
        if sizes[i] == 0 {
            continue;
        }
        let last = (sizes[i] as i64 - 1).checked_mul(steps[i]).and_then(|x| x.checked_add(starts[i]));
        let inside = |x: i64| x >= 0 && x < d as i64;
        if !inside(starts[i]) || !last.is_some_and(inside) {
            return Err(Error::index(format!(
                "dimension {i} of size {d} has no {} elements from {} in steps of {}",
                sizes[i], starts[i], steps[i]
            )));
        }
    }
    Ok(())
}

impl Tensor {
    /// In each dimension, `sizes` elements from `starts` on, `steps` apart.
    #[track_caller]
    pub fn slice_raw(&self, starts: &[i64], sizes: &[i64], steps: &[i64]) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("starts", starts).with("sizes", sizes).with("steps", steps))
    }
    /// `size` elements from `start` on along one axis.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3, 4]).narrow(0, 1, 2).to_vec::<i32>().unwrap(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn narrow(&self, along: i64, start: usize, size: usize) -> Tensor {
        self.then(|t| {
            let a = axis(along, t.shape.rank()).map_err(|e| e.in_op("narrow"))?;
            let mut starts = vec![0; t.shape.rank()];
            let mut sizes: Vec<i64> = t.shape.iter().map(|&d| d as i64).collect();
            (starts[a], sizes[a]) = (start as i64, size as i64);
            Ok(self.slice_raw(&starts, &sizes, &vec![1; t.shape.rank()]))
        })
    }
    /// One element along an axis, which is removed; a negative index counts from the end.
    #[track_caller]
    pub fn select(&self, along: i64, index: i64) -> Tensor {
        self.then(|t| {
            let a = axis(along, t.shape.rank()).map_err(|e| e.in_op("select"))?;
            let d = t.shape[a] as i64;
            if index < -d || index >= d {
                return Err(Error::index(format!("index {index} is out of range for size {d}")).in_op("select"));
            }
            let mut shape = t.shape.clone();
            shape.remove(a);
            Ok(self.narrow(a as i64, ((index + d) % d) as usize, 1).reshape(shape))
        })
    }
}

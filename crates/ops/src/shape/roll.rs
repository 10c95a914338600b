//! `roll`: the elements moved along axes, around the end.

use crate::rules::{by_expansion, expand1, f64s, floats};
use crate::{Axes, Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `roll`.
pub static OP: Op = Op {
    name: "roll",
    doc: "The elements shifted by `shifts` along `axes`; those that leave at one end enter at the other.",
    attrs: &[("shifts", AttrKind::Ints), ("axes", AttrKind::Ints)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |s: &[i64], a: &[i64]| Attrs::new().with("shifts", s).with("axes", a);
        let x = f64s([2, 5], &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9.]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], by(&[4, -1], &[1, 0])),
            Case::new(vec![x], by(&[1], &[1])).expect(
                vec![f64s([2, 5], &[4., 0., 1., 2., 3., 9., 5., 6., 7., 8.])],
                "NumPy manual: np.roll(x2, 1, axis=1)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (shifts, axes) = (c.attrs.ints("shifts")?, c.attrs.sizes("axes")?);
    if shifts.len() != axes.len() || axes.iter().any(|&a| a >= c.shape(0).rank()) {
        return Err(Error::value(format!("shifts {shifts:?} along axes {axes:?} do not fit {}", c.shape(0))));
    }
    expand1(x, |x| axes.iter().zip(shifts).fold(x[0].clone(), |x, (&a, &by)| roll_one(&x, a, by)))
}

fn roll_one(x: &Tensor, at: usize, by: i64) -> Tensor {
    x.then(|t| {
        let size = t.shape[at];
        if size == 0 {
            return Ok(x.clone());
        }
        match by.rem_euclid(size as i64) as usize {
            0 => Ok(x.clone()),
            by => {
                let (a, b) = (x.narrow(at as i64, size - by, by), x.narrow(at as i64, 0, size - by));
                Ok(Tensor::concat(&[a, b], at as i64))
            }
        }
    })
}

impl Tensor {
    /// The elements moved along axes; those that leave at one end come in at the other. For `..`
    /// there is one shift, through the flattened tensor.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).roll(&[1], 0).to_vec::<i32>().unwrap(), [3, 1, 2]);
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: &[i64], axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| {
            let apply = |x: &Tensor, axes: &[usize]| {
                Tensor::apply1(&OP, &[x], Attrs::new().with("shifts", shifts).with("axes", axes))
            };
            match &axes {
                Axes::All => Ok(apply(&self.ravel(), &[0]).reshape(&t.shape)),
                Axes::List(list) => {
                    let at = |&a: &i64| axis(a, t.shape.rank()).map_err(|e| e.in_op("roll"));
                    Ok(apply(self, &list.iter().map(at).collect::<Result<Vec<_>>>()?))
                }
            }
        })
    }
}

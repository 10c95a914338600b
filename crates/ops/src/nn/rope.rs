//! `rope`: rotary position embedding.

use crate::rules::{expand1, f64s, float, floats, one_dtype, same};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Meaning, Op, Result};

/// The row of `rope`.
pub static OP: Op = Op {
    name: "rope",
    doc: "Pairs of elements along the last axis of x[…, L, E] rotated by angles whose cosines and sines […, L, E / \
          2] are given. A pair is (i, i + E / 2), or neighbors (2 i, 2 i + 1) if `interleaved`.",
    attrs: &[("interleaved", AttrKind::Bool)],
    infer: |c| {
        check(c)?;
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, v| {
        let interleaved = c.attrs.bool("interleaved")?;
        let (shape, rank) = (c.shape(0).clone(), c.shape(0).rank());
        let half = shape[rank - 1] / 2;
        expand1(v, |v| {
            // The pair gets its own axis, along which the other of each is seen by a flip.
            let mut apart = shape.clone();
            apart.dims_mut()[rank - 1] = if interleaved { half } else { 2 };
            apart.push(if interleaved { 2 } else { half });
            let pair = if interleaved { -1 } else { -2 };
            let x = v[0].reshape(apart);
            let signs =
                Tensor::from([-1.0f64, 1.0]).cast(c.dtype(0)).reshape(if interleaved { [1, 2] } else { [2, 1] });
            let rotated = &x * v[1].unsqueeze(pair) + x.flip(pair) * (v[2].unsqueeze(pair) * signs);
            rotated.reshape(&shape)
        })
    }),
    cases: || {
        let with = |interleaved: bool| Attrs::new().with("interleaved", interleaved);
        let x = || vec![f64s([1, 4], &[1.0, 2.0, 3.0, 4.0]), f64s([1, 2], &[0.0, 1.0]), f64s([1, 2], &[1.0, 0.0])];
        vec![
            Case::new(vec![floats([2, 2, 4], 1), floats([2, 2], 2), floats([2, 2], 3)], with(false)),
            Case::new(vec![floats([2, 2, 4], 1), floats([2, 2], 2), floats([2, 2], 3)], with(true)),
            Case::new(x(), with(false))
                .expect(vec![f64s([1, 4], &[-3.0, 2.0, 1.0, 4.0])], "by hand: (1, 3) rotated by a right angle"),
            Case::new(x(), with(true))
                .expect(vec![f64s([1, 4], &[-2.0, 1.0, 3.0, 4.0])], "by hand: (1, 2) rotated by a right angle"),
        ]
    },
    ..Op::DEFAULT
};

fn check(c: &Call) -> Result<()> {
    c.arity(3)?;
    float(c, 0)?;
    one_dtype(c)?;
    let x = c.shape(0);
    if x.rank() < 2 || !x[x.rank() - 1].is_multiple_of(2) {
        return Err(Error::shape(format!("takes […, L, E] with an even E, not {x}")));
    }
    let mut half = x.clone();
    half.dims_mut()[x.rank() - 1] /= 2;
    for t in &c.types[1..] {
        if !t.shape.broadcasts_to(&half) {
            return Err(Error::shape(format!("cosines and sines must broadcast to {half}, but are {}", t.shape)));
        }
    }
    Ok(())
}

impl Tensor {
    /// Rotary position embedding: pairs along the last axis of `[…, L, E]` rotated by angles given
    /// as cosines and sines `[L, E / 2]` (see [`Tensor::rope_table`]). A pair is (i, i + E / 2), or
    /// neighbors (2 i, 2 i + 1) if `interleaved`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [cos, sin] = Tensor::rope_table(&Tensor::from([0i64, 1]), 4, 10_000.0);
    /// let y = Tensor::ones([2, 4]).rope(&cos, &sin, false);
    /// assert_eq!(y.select(0, 0).to_vec::<f32>().unwrap(), [1.0; 4]);
    /// ```
    #[track_caller]
    pub fn rope(&self, cos: &Tensor, sin: &Tensor, interleaved: bool) -> Tensor {
        self.then(|t| {
            let attrs = Attrs::new().with("interleaved", interleaved);
            Ok(Tensor::apply1(&OP, &[self, &cos.cast(t.dtype), &sin.cast(t.dtype)], attrs))
        })
    }
    /// Cosines and sines `[L, width / 2]` of the angles p / base^(2 i / width) for positions p `[L]`.
    #[track_caller]
    pub fn rope_table(positions: &Tensor, width: usize, base: f64) -> [Tensor; 2] {
        let angles = positions.then(|_| {
            if base.is_nan() || base <= 0.0 {
                return Err(Error::value(format!("the base must be positive, but is {base}")).in_op("rope_table"));
            }
            let rates: Vec<f32> = (0..width / 2).map(|i| base.powf(-2.0 * i as f64 / width as f64) as f32).collect();
            Ok(positions.cast(DType::F32).unsqueeze(-1) * super::window::table([rates.len()], &rates))
        });
        [angles.cos(), angles.sin()]
    }
}

//! `col2im`: columns added up to an image (PyTorch's `nn.functional.fold`), the transpose of
//! `im2col`.

use super::im2col::{ATTRS, Columns, attrs, resolved};
use super::window::{ConvOptions, PerAxis};
use crate::rules::{by_expansion, expand, f64s, floats, product};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape, Value};

/// The row of `col2im`.
pub static OP: Op = Op {
    name: "col2im",
    doc: "Columns x[N, C · window, L], each a window of an image with spatial sizes `out`, added up where they overlap: \
          [N, C, *out]. The transpose of im2col.",
    attrs: &[ATTRS[0], ATTRS[1], ATTRS[2], ATTRS[3], ("out", AttrKind::Ints)],
    infer: |c| {
        c.arity(1)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    cases: || {
        vec![
            Case::new(vec![floats([1, 4, 6], 1)], attrs(&[2, 2], &[1, 2], &[1, 0], &[2, 1]).with("out", [3i64, 4])),
            Case::new(vec![floats([2, 2, 3], 2)], attrs(&[2], &[2], &[1], &[2]).with("out", [5i64])),
            Case::new(vec![f64s([1, 2, 2], &[1.0, 2.0, 3.0, 4.0])], attrs(&[2], &[1], &[0], &[1]).with("out", [3i64]))
                .expect(vec![f64s([1, 1, 3], &[1.0, 5.0, 4.0])], "by hand: windows (1, 3) and (2, 4)"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (shape, sizes) = (c.shape(0), c.attrs.sizes("out")?);
    let w = Columns::new(c.attrs, &sizes)?;
    let (window, windows) = (product(&w.window)?, product(&w.out)?);
    if shape.rank() != 3 || !shape[1].is_multiple_of(window) || shape[2] != windows {
        let e = format!("takes [N, C · {window}, {windows}] for an image {sizes:?}, not {shape}");
        return Err(Error::shape(e));
    }
    expand(args, |v| {
        let apart: Shape = [shape[0], shape[1] / window]
            .into_iter()
            .chain(w.window.iter().copied())
            .chain(w.out.iter().copied())
            .collect();
        let mut y = v[0].reshape(apart).permute(&w.swap());
        for i in (0..sizes.len()).rev() {
            if w.dilation[i] > 1 {
                y = y.spread(y.rank()? - 1, w.dilation[i]);
            }
            // Elements that no window reaches are put on at the end.
            let span = w.dilation[i] * (w.window[i] - 1) + 1;
            let reach = (w.out[i] - 1) * w.stride[i] + span;
            y = y.fold(i as i64 + 2, w.stride[i], reach);
            let (mut lo, mut hi) = (vec![0; y.rank()?], vec![0; y.rank()?]);
            lo[i + 2] = -(w.padding[i] as i64);
            hi[i + 2] = sizes[i] as i64 + w.padding[i] as i64 - reach as i64;
            if (lo[i + 2], hi[i + 2]) != (0, 0) {
                y = y.pad_raw(&lo, &hi, 0.0);
            }
        }
        Ok(vec![y])
    })
}

impl Tensor {
    /// Columns `[N, C · KH · KW, L]` (or without N), each a window of an image of the given size,
    /// added up where they overlap: `[N, C, H, W]`. Of the options, stride, even padding and
    /// dilation count.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::ConvOptions};
    /// let x = Tensor::ones([1, 1, 3, 3]);
    /// let y = x.im2col(2, ConvOptions::new()).col2im([3, 3], 2, ConvOptions::new());
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn col2im(&self, size: impl Into<PerAxis>, window: impl Into<PerAxis>, options: ConvOptions) -> Tensor {
        let (size, window) = (size.into(), window.into());
        self.then(|t| {
            let run = || -> Result<Tensor> {
                let attrs: Attrs = resolved(&window, &options)?.with("out", size.resolve(2, "size")?.as_slice());
                if t.shape.rank() == 3 {
                    return Ok(Tensor::apply1(&OP, &[self], attrs));
                }
                Ok(Tensor::apply1(&OP, &[&self.unsqueeze(0)], attrs).squeeze(0))
            };
            run().map_err(|e| e.in_op("col2im"))
        })
    }
}

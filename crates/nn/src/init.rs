//! Initial values that keep signals and gradients of one size through the layers.

use tensor::generator::next_key;
use tensor::{Shape, Tensor};

/// How many inputs and outputs one element of a weight `[out, in, *kernel]` connects.
pub fn fans(shape: &Shape) -> (usize, usize) {
    let kernel: usize = shape.iter().skip(2).product();
    match shape.dims() {
        [] => (1, 1),
        [n] => (*n, *n),
        [out, inp, ..] => (inp * kernel, out * kernel),
    }
}

/// Uniform in ±bound.
pub fn uniform(shape: impl Into<Shape>, bound: f64) -> Tensor {
    Tensor::uniform(shape, -bound, bound)
}
/// Glorot and Bengio 2010, uniform: for tanh and linear layers.
pub fn xavier_uniform(shape: impl Into<Shape>, gain: f64) -> Tensor {
    let shape = shape.into();
    let (i, o) = fans(&shape);
    uniform(shape, gain * (6.0 / (i + o) as f64).sqrt())
}
/// Glorot and Bengio 2010, normal.
pub fn xavier_normal(shape: impl Into<Shape>, gain: f64) -> Tensor {
    let shape = shape.into();
    let (i, o) = fans(&shape);
    Tensor::randn(shape) * (gain * (2.0 / (i + o) as f64).sqrt())
}
/// He and others 2015, uniform: for ReLU (`gain` √2) and its relatives.
pub fn kaiming_uniform(shape: impl Into<Shape>, gain: f64) -> Tensor {
    let shape = shape.into();
    let (i, _) = fans(&shape);
    uniform(shape, gain * (3.0 / i as f64).sqrt())
}
/// He and others 2015, normal.
pub fn kaiming_normal(shape: impl Into<Shape>, gain: f64) -> Tensor {
    let shape = shape.into();
    let (i, _) = fans(&shape);
    Tensor::randn(shape) * (gain / (i as f64).sqrt())
}
/// Normal distribution truncated at two standard deviations, as transformers start with.
pub fn truncated_normal(shape: impl Into<Shape>, std: f64) -> Tensor {
    Tensor::random_truncated_normal(&next_key(), shape, -2.0, 2.0) * std
}
/// Rows (or columns, if there are more rows) at right angles and of length `gain` (Saxe and others
/// 2014): for recurrent layers. All but the first dimension count as columns.
pub fn orthogonal(shape: impl Into<Shape>, gain: f64) -> Tensor {
    let shape = shape.into();
    let rows = shape.first().copied().unwrap_or(1);
    let columns: usize = shape.iter().skip(1).product();
    let tall = Tensor::randn([rows.max(columns), rows.min(columns)]);
    let [q, r] = tall.qr();
    // Signs of the diagonal make the result uniform over all such matrices.
    let q = q * r.diagonal(0, 0, 1).sign();
    let q = if rows < columns { q.t() } else { q };
    (q * gain).reshape(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_matches_the_formulas() {
        tensor::manual_seed(1);
        let spread = |t: Tensor| (&t * &t).mean(..).sqrt().item::<f64>().unwrap();
        assert!((spread(xavier_uniform([100, 200], 1.0)) - (2.0f64 / 300.0).sqrt()).abs() < 2e-3);
        assert!((spread(xavier_normal([100, 200], 1.0)) - (2.0f64 / 300.0).sqrt()).abs() < 2e-3);
        assert!((spread(kaiming_normal([100, 200], 2f64.sqrt())) - 0.1).abs() < 2e-3);
        assert!((spread(kaiming_uniform([100, 50, 2, 2], 2f64.sqrt())) - 0.1).abs() < 2e-3);
        assert_eq!(fans(&Shape::new(&[8, 4, 3, 3])), (36, 72));
    }

    #[test]
    fn orthogonal_rows_or_columns() {
        tensor::manual_seed(2);
        for shape in [vec![3, 5], vec![5, 3], vec![4, 2, 3], vec![4, 4]] {
            let w = orthogonal(shape.clone(), 2.0).reshape([shape[0], shape[1..].iter().product()]);
            let small = if shape[0] < shape[1..].iter().product() { w.matmul(w.t()) } else { w.t().matmul(&w) };
            let size = small.dims::<2>().unwrap()[0];
            let off = (small - Tensor::eye(size) * 4.0).abs().max(..).item::<f32>().unwrap();
            assert!(off < 1e-5, "{shape:?}: {off}");
        }
    }
}

//! Products of 8-bit floats, and training a linear layer with them and with bf16.

use super::{emit, normal, timed};
use tensor::{DType, Result, Tensor, autocast, jit, vjp};

/// The product of two square matrices of 8-bit floats, the second by columns, as the chip takes it.
pub fn product(at: &str, n: usize) -> Result<()> {
    let (a, b) = (normal(&[n, n], DType::F8E4M3)?, normal(&[n, n], DType::F8E4M3)?);
    let (scale, other) = (normal(&[], DType::F32)?, normal(&[], DType::F32)?);
    let product = jit(|x: &[Tensor]| Ok(vec![x[0].scaled_matmul(&x[1].t(), &x[2], &x[3], None, DType::BF16)]));
    let args = [&a, &b, &scale, &other];
    let ms = timed(at, 5, 20, || product.call(&args).map(drop))?;
    let rate = 2.0 * (n as f64).powi(3) / ms / 1e9;
    emit(&format!("matmul-fp8-{n}"), ms, Some(rate), "TFLOP/s", "");
    Ok(())
}

/// A linear layer forward and backward, its input in bf16 and its weight in f32, roundings and scales
/// included.
pub fn train(at: &str) -> Result<()> {
    let (rows, width) = (16384, 8192);
    let (x, w) = (normal(&[rows, width], DType::BF16)?, normal(&[width, width], DType::F32)?);
    let g = normal(&[rows, width], DType::BF16)?;
    for (name, dtype) in [("bf16", DType::BF16), ("fp8", DType::F8E4M3)] {
        let step = jit(|a: &[Tensor]| {
            let y = autocast(dtype, || a[0].linear(&a[1], None))?;
            let mut all = vjp(std::slice::from_ref(&y), &a[2..], &a[..2])?;
            all.push(y);
            Ok(all)
        });
        let args = [&x, &w, &g];
        let ms = timed(at, 5, 20, || step.call(&args).map(drop))?;
        super::look(&step, &args)?;
        let rate = 6.0 * (rows * width * width) as f64 / ms / 1e9;
        emit(&format!("linear-{name}-{rows}x{width}-fwdbwd"), ms, Some(rate), "TFLOP/s", "");
    }
    Ok(())
}

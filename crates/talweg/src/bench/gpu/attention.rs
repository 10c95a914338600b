//! Causal attention, 4 × 16 heads of 4096 queries and keys of width 128.

use super::{emit, normal, timed};
use talweg::{DType, Result, Tensor, device, engine_named, jit};
use tensor::nn::AttentionOptions;

fn options() -> AttentionOptions {
    AttentionOptions { causal: true, ..Default::default() }
}

/// Forward, and forward with gradients.
pub fn causal(at: &str) -> Result<()> {
    let (batch, heads, length, width) = (4, 16, 4096, 128);
    let new = || normal(&[batch, heads, length, width], DType::BF16);
    let (q, k, v, g) = (new()?, new()?, new()?, new()?);
    let flops = 4.0 * (batch * heads * length * length * width) as f64 / 2.0;
    let forward = jit(|a: &[Tensor]| Ok(vec![a[0].attention(&a[1], &a[2], options())]));
    let ms = timed(at, 5, 20, || forward.call(&[&q, &k, &v]).map(drop))?;
    emit("attn-causal-4x16x4096x128-fwd", ms, Some(flops / ms / 1e9), "TFLOP/s", &off(at)?);
    let both = jit(|a: &[Tensor]| gradients(&a[..3], &a[3]));
    let ms = timed(at, 5, 20, || both.call(&[&q, &k, &v, &g]).map(drop))?;
    let explained = both.explain(&[&q, &k, &v, &g])?;
    let note = explained.replace('\n', "; ");
    emit("attn-causal-4x16x4096x128-fwdbwd", ms, Some(3.5 * flops / ms / 1e9), "TFLOP/s", &note);
    Ok(())
}

/// The result and the gradients of q, k and v.
fn gradients(qkv: &[Tensor], g: &Tensor) -> Result<Vec<Tensor>> {
    let y = qkv[0].attention(&qkv[1], &qkv[2], options());
    let mut out = talweg::vjp(std::slice::from_ref(&y), std::slice::from_ref(g), qkv)?;
    out.insert(0, y);
    Ok(out)
}

/// How far results and gradients are from those in f32 on the CPU, for a smaller problem with heads
/// that share keys: differences relative to the size of what they belong to.
fn off(at: &str) -> Result<String> {
    let new = |heads: usize| normal(&[2, heads, 192, 64], DType::BF16);
    let (q, k, v, g) = (new(4)?, new(2)?, new(2)?, new(4)?);
    let grouped = |a: &[Tensor]| -> Result<Vec<Tensor>> {
        let qkv: Vec<Tensor> = a[..3].to_vec();
        let y = qkv[0].attention(&qkv[1], &qkv[2], AttentionOptions { grouped: true, ..options() });
        let mut out = talweg::vjp(std::slice::from_ref(&y), std::slice::from_ref(&a[3]), &qkv)?;
        out.insert(0, y);
        Ok(out)
    };
    let got = jit(grouped).call(&[&q, &k, &v, &g])?;
    engine_named(at)?.device().synchronize()?;
    let host = |t: &Tensor| -> Result<Tensor> { Ok(Tensor::from(t.literal()?).cast(DType::F32)) };
    let wide = [&q, &k, &v, &g].map(host).into_iter().collect::<Result<Vec<_>>>()?;
    let want = device("cpu", || jit(grouped).call(&wide.iter().collect::<Vec<_>>()))??;
    let distance = |a: &Tensor, b: &Tensor| -> Result<f64> {
        device("cpu", || {
            let a = host(a)?;
            ((a - b).square().sum(..) / b.square().sum(..)).sqrt().item()
        })?
    };
    let all = got.iter().zip(&want).map(|(a, b)| distance(a, b)).collect::<Result<Vec<f64>>>()?;
    Ok(format!("of 4 heads with 2 of keys, y, dq, dk, dv off by {all:.4?} from f32 on the CPU"))
}

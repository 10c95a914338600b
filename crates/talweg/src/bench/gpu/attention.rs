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
    let note = format!("{}; {}", off(at)?, off_one(at)?);
    emit("attn-causal-4x16x4096x128-fwd", ms, Some(flops / ms / 1e9), "TFLOP/s", &note);
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
    let all = distances(at, &[q, k, v, g], grouped)?;
    Ok(format!("of 4 heads with 2 of keys, y, dq, dk, dv off by {all:.4?} from f32 on the CPU"))
}

/// The same for one query that sees two thirds of 300 keys.
fn off_one(at: &str) -> Result<String> {
    let new = |heads: usize, rows: usize| normal(&[3, heads, rows, 64], DType::BF16);
    let one = |a: &[Tensor]| -> Result<Vec<Tensor>> {
        let mask = Tensor::iota(300, DType::I64).rem(3i64).ne(0i64).reshape([1, 300]);
        let o = AttentionOptions { mask: Some(mask), grouped: true, ..Default::default() };
        Ok(vec![a[0].attention(&a[1], &a[2], o)])
    };
    let all = distances(at, &[new(8, 1)?, new(2, 300)?, new(2, 300)?], one)?;
    Ok(format!("of one query, y off by {all:.4?}"))
}

/// How far results on a device are from those in f32 on the CPU, relative to their size.
fn distances(at: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Vec<f64>> {
    let got = jit(&f).call(&inputs.iter().collect::<Vec<_>>())?;
    engine_named(at)?.device().synchronize()?;
    let host = |t: &Tensor| -> Result<Tensor> { Ok(Tensor::from(t.literal()?).cast(DType::F32)) };
    let wide = inputs.iter().map(host).collect::<Result<Vec<_>>>()?;
    let want = device("cpu", || jit(&f).call(&wide.iter().collect::<Vec<_>>()))??;
    let distance = |(a, b): (&Tensor, &Tensor)| -> Result<f64> {
        device("cpu", || ((host(a)? - b).square().sum(..) / b.square().sum(..)).sqrt().item())?
    };
    got.iter().zip(&want).map(distance).collect()
}

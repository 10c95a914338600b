//! Attention, 4 × 16 heads of 4096 queries and keys of width 128: causal, and with every option.

use super::{emit, normal, timed};
use tensor::nn::AttentionOptions;
use tensor::{DType, Result, Tensor, device, engine_named, jit};

fn is_causal() -> AttentionOptions {
    AttentionOptions { causal: true, ..Default::default() }
}

/// Forward, and forward with gradients.
pub fn causal(at: &str) -> Result<()> {
    let (batch, heads, length, width) = (4, 16, 4096, 128);
    let new = || normal(&[batch, heads, length, width], DType::BF16);
    let (q, k, v, g) = (new()?, new()?, new()?, new()?);
    let flops = 4.0 * (batch * heads * length * length * width) as f64 / 2.0;
    let forward = jit(|a: &[Tensor]| Ok(vec![a[0].attention(&a[1], &a[2], is_causal())]));
    let ms = timed(at, 5, 20, || forward.call(&[&q, &k, &v]).map(drop))?;
    let note = format!("{}; {}", off(at)?, off_one(at)?);
    emit("attn-causal-4x16x4096x128-fwd", ms, Some(flops / ms / 1e9), "TFLOP/s", &note);
    let both = jit(|a: &[Tensor]| gradients(&a[..3], &a[3], is_causal()));
    let ms = timed(at, 5, 20, || both.call(&[&q, &k, &v, &g]).map(drop))?;
    let explained = both.explain(&[&q, &k, &v, &g])?;
    let note = explained.replace('\n', "; ");
    emit("attn-causal-4x16x4096x128-fwdbwd", ms, Some(3.5 * flops / ms / 1e9), "TFLOP/s", &note);
    Ok(())
}

/// Attention in f32 with f32 and with TF32 products: forward, and forward with gradients; beside it the same from GEMM and
/// softmax, whose scores are in memory.
pub fn single(at: &str) -> Result<()> {
    for (batch, heads, length, width) in [(24, 10, 384, 64), (4, 16, 2048, 64), (2, 16, 4096, 128), (8, 12, 1024, 80)] {
        let new = || normal(&[batch, heads, length, width], DType::F32);
        let (q, k, v, g) = (new()?, new()?, new()?, new()?);
        let place = || Tensor::iota(length, DType::I64);
        let seen = place().reshape([length, 1]).ge(place());
        let scale = 1.0 / (width as f64).sqrt();
        let spelled = |a: &[Tensor]| {
            let scores = a[0].matmul(a[1].transpose(-1, -2)) * scale;
            Tensor::where_(&seen, &scores, f64::NEG_INFINITY).softmax(-1).matmul(&a[2])
        };
        let flops = 4.0 * (batch * heads * length * length * width) as f64 / 2.0;
        for is_tf32 in [false, true] {
            cuda::allow_tf32(is_tf32);
            let kind = if is_tf32 { "tf32" } else { "f32" };
            let name = |end: &str| format!("attn-{kind}-{batch}x{heads}x{length}x{width}-{end}");
            let forward = jit(|a: &[Tensor]| Ok(vec![a[0].attention(&a[1], &a[2], is_causal())]));
            let ms = timed(at, 3, 10, || forward.call(&[&q, &k, &v]).map(drop))?;
            emit(&name("fwd"), ms, Some(flops / ms / 1e9), "TFLOP/s", "");
            let both = jit(|a: &[Tensor]| gradients(&a[..3], &a[3], is_causal()));
            let ms = timed(at, 3, 10, || both.call(&[&q, &k, &v, &g]).map(drop))?;
            let note = both.explain(&[&q, &k, &v, &g])?.replace('\n', "; ");
            emit(&name("fwdbwd"), ms, Some(3.5 * flops / ms / 1e9), "TFLOP/s", &note);
            let in_memory = jit(|a: &[Tensor]| {
                let y = spelled(a);
                let mut out = tensor::vjp(std::slice::from_ref(&y), std::slice::from_ref(&a[3]), &a[..3])?;
                out.insert(0, y);
                Ok(out)
            });
            let ms = timed(at, 3, 10, || in_memory.call(&[&q, &k, &v, &g]).map(drop))?;
            emit(&name("fwdbwd-scores-in-memory"), ms, None, "", "");
        }
        cuda::allow_tf32(true);
    }
    Ok(())
}

/// The result and the gradients of q, k and v.
fn gradients(qkv: &[Tensor], g: &Tensor, o: AttentionOptions) -> Result<Vec<Tensor>> {
    let y = qkv[0].attention(&qkv[1], &qkv[2], o);
    let mut out = tensor::vjp(std::slice::from_ref(&y), std::slice::from_ref(g), qkv)?;
    out.insert(0, y);
    Ok(out)
}

/// Forward, and forward with gradients, with each of what attention takes beside queries, keys and values.
pub fn options(at: &str) -> Result<()> {
    let (batch, heads, length, width) = (4, 16, 4096, 128);
    let new = |heads: usize| normal(&[batch, heads, length, width], DType::BF16);
    let (q, k, v, g, few) = (new(heads)?, new(heads)?, new(heads)?, new(heads)?, new(4)?);
    let here = |t: Tensor| -> Result<Tensor> {
        t.eval()?;
        Ok(t)
    };
    let place = || Tensor::iota(length, DType::I64);
    let triangle = here(place().reshape([length, 1]).ge(place()).reshape([1, 1, length, length]))?;
    let lengths = here(Tensor::from([4096i64, 3072, 2048, 1024]))?;
    let padding = here(place().lt(lengths.reshape([4, 1])).reshape([4, 1, 1, length]))?;
    let key = here(Tensor::from([1i64, 2]))?;
    let plain = AttentionOptions::default;
    let masked = |m: &Tensor| AttentionOptions { mask: Some(m.clone()), ..plain() };
    let dropped = |o: AttentionOptions| AttentionOptions { dropout: Some((0.1, key.clone())), ..o };
    let lengths = Some(lengths);
    let padded = AttentionOptions { query_lengths: lengths.clone(), key_lengths: lengths, ..plain() };
    let cases = [
        ("plain", plain()),
        ("bool", masked(&triangle)),
        ("bias", masked(&normal(&[1, 1, length, length], DType::BF16)?)),
        ("bias_batch", masked(&normal(&[batch, 1, length, length], DType::BF16)?)),
        ("padding", masked(&padding)),
        ("lengths", padded.clone()),
        ("lengths_causal", AttentionOptions { causal: true, ..padded }),
        ("grouped", AttentionOptions { grouped: true, ..is_causal() }),
        ("dropout", dropped(plain())),
        ("dropout_causal", dropped(is_causal())),
        ("dropout_bool", dropped(masked(&triangle))),
    ];
    for (name, o) in cases {
        let (k, v) = if o.grouped { (&few, &few) } else { (&k, &v) };
        let forward = jit(|a: &[Tensor]| Ok(vec![a[0].attention(&a[1], &a[2], o.clone())]));
        let ms = timed(at, 3, 10, || forward.call(&[&q, k, v]).map(drop))?;
        emit(&format!("attn-options-{name}-fwd"), ms, None, "", "");
        let both = jit(|a: &[Tensor]| gradients(&a[..3], &a[3], o.clone()));
        let ms = timed(at, 3, 10, || both.call(&[&q, k, v, &g]).map(drop))?;
        let note = both.explain(&[&q, k, v, &g])?.replace('\n', "; ");
        emit(&format!("attn-options-{name}-fwdbwd"), ms, None, "", &note);
    }
    Ok(())
}

/// How far results and gradients are from those in f32 on the CPU, for a smaller problem with heads
/// that share keys: differences relative to the size of what they belong to.
fn off(at: &str) -> Result<String> {
    let new = |heads: usize| normal(&[2, heads, 192, 64], DType::BF16);
    let (q, k, v, g) = (new(4)?, new(2)?, new(2)?, new(4)?);
    let grouped = |a: &[Tensor]| gradients(&a[..3], &a[3], AttentionOptions { grouped: true, ..is_causal() });
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

//! Matrices in the form that a device multiplies fastest, made once: rows of several matrices in one GEMM, and on a CPU
//! interleaved in groups of 16.

use super::weights::{Matrix, Weight};
use crate::gguf::Format;
use ir::blocks::{INTERLEAVED, interleave};
use ir::{DType, Literal, Result, Source};
use std::sync::OnceLock;
use tensor::Tensor;

/// Whether the host computes.
pub fn is_on_host() -> bool {
    tensor::engine().device().name() == "cpu"
}

/// A tensor in the memory of the device that computes, so that programs share it.
pub fn placed(t: &Tensor) -> Tensor {
    if is_on_host() { t.clone() } else { t.to(tensor::engine().device().name()) }
}

/// A weight in the type of the activations, made once: a cast in every step of a GPU is a launch, and keeps others from
/// being fused.
#[derive(Debug, Default)]
pub struct Typed(OnceLock<Tensor>);

impl Typed {
    /// The weight in the type of x.
    pub fn of(&self, w: &Weight, x: &Tensor) -> Tensor {
        let Ok(dtype) = x.dtype() else { return w.tensor() };
        match w {
            Weight::Fixed(t) if !is_on_host() && !ir::is_grad_on() => {
                let made = self.0.get_or_init(|| {
                    let cast = t.cast(dtype);
                    placed(&cast).eval().map_or(cast.clone(), |t| t.clone())
                });
                if made.dtype() == Ok(dtype) { made.clone() } else { t.cast(dtype) }
            }
            _ => w.tensor().cast(dtype),
        }
    }
}

/// Matrices with one input, as one GEMM. A row of the result does not depend on the other rows of x on a CPU.
#[derive(Debug, Default)]
pub struct Packed(OnceLock<Option<Weights>>);

#[derive(Debug)]
struct Weights {
    tensor: Tensor,
    format: Format,
    /// Rows of each matrix.
    rows: Vec<usize>,
}

impl Packed {
    /// `x Wᵀ` of each matrix; `None` where they cannot be one GEMM: they are stored differently, or they change.
    pub fn apply(&self, all: &[&Matrix], x: &Tensor) -> Option<Vec<Tensor>> {
        // Gradients are those of the dequantized values: training computes with them from the first layer on.
        if ir::is_grad_on() || all.iter().any(|m| m.is_learned()) {
            return None;
        }
        let w = self.0.get_or_init(|| pack(all).unwrap_or(None)).as_ref()?;
        let y = match (is_on_host(), w.format.block() > 1) {
            (true, int8) => x.quantized_matmul_interleaved(&w.tensor, w.format, int8),
            (false, true) => x.quantized_matmul(&w.tensor, w.format, false),
            (false, false) => match (x.dtype(), w.tensor.dtype()) {
                (Ok(a), Ok(b)) if a != b => x.cast(b).linear(&w.tensor, None).cast(a),
                _ => x.linear(&w.tensor, None),
            },
        };
        let mut first = 0;
        let part = |n: &usize| {
            first += n;
            y.narrow(-1, first - n, *n)
        };
        Some(w.rows.iter().map(part).collect())
    }
}

/// The matrices of several experts below each other, of which each row of x uses one.
#[derive(Debug, Default)]
pub struct PackedExperts(OnceLock<Option<(Tensor, Format)>>);

impl PackedExperts {
    /// Row i of x times the transposed matrix of the expert that element i of `index` names; `None` where weights
    /// change, gradients are recorded, or a matrix has no form that a device multiplies.
    pub fn apply(&self, all: &Matrix, experts: usize, x: &Tensor, index: &Tensor) -> Option<Tensor> {
        if ir::is_grad_on() || all.is_learned() {
            return None;
        }
        let (w, format) = self.0.get_or_init(|| pack_experts(all, experts).unwrap_or(None)).as_ref()?;
        Some(match is_on_host() {
            true => x.expert_matmul_interleaved(w, index, *format, format.block() > 1, experts),
            false => x.expert_matmul(w, index, *format, false, experts),
        })
    }
}

fn pack_experts(all: &Matrix, experts: usize) -> Result<Option<(Tensor, Format)>> {
    let Some((format, literal)) = stored(all)? else { return Ok(None) };
    let rows = literal.shape()[0];
    let row = literal.shape()[1] * literal.dtype().size();
    let is_whole = rows.is_multiple_of(experts) && (rows / experts).is_multiple_of(INTERLEAVED);
    // A GPU multiplies 32 weights at a time.
    if !is_whole || !(is_on_host() || format.weights(row)?.is_multiple_of(32)) {
        return Ok(None);
    }
    let bytes = if is_on_host() { interleaved(format, literal.bytes(), row)? } else { literal.bytes().to_vec() };
    let packed: Tensor = Literal::from_bytes(DType::U8, [rows, row], &bytes)?.into();
    Ok(Some((placed(&packed).eval()?.clone(), format)))
}

fn float_format(dtype: DType) -> Option<Format> {
    match dtype {
        DType::F32 => Some(Format::F32),
        DType::F16 => Some(Format::F16),
        DType::BF16 => Some(Format::BF16),
        _ => None,
    }
}

/// A matrix's format and values; `None` for the value of a variable, which changes.
fn stored(m: &Matrix) -> Result<Option<(Format, Literal)>> {
    let tensor = match m {
        Matrix::Dense(Weight::Fixed(w)) => w,
        Matrix::Dense(Weight::Learned(_)) => return Ok(None),
        Matrix::Blocks { bytes, .. } => bytes,
    };
    if !matches!(tensor.value()?.node().source(), Source::Data) {
        return Ok(None);
    }
    let literal = tensor.literal()?;
    let format = match m {
        Matrix::Blocks { format, .. } => Some(*format),
        Matrix::Dense(_) => float_format(literal.dtype()),
    };
    Ok(format.map(|f| (f, literal)))
}

fn pack(all: &[&Matrix]) -> Result<Option<Weights>> {
    let mut parts = Vec::with_capacity(all.len());
    for m in all {
        let Some(part) = stored(m)? else { return Ok(None) };
        parts.push(part);
    }
    let Some((format, first)) = parts.first() else { return Ok(None) };
    let (format, dtype, width) = (*format, first.dtype(), first.shape()[1]);
    if parts.iter().any(|(f, l)| *f != format || l.shape()[1] != width) {
        return Ok(None);
    }
    let rows: Vec<usize> = parts.iter().map(|(_, l)| l.shape()[0]).collect();
    let count: usize = rows.iter().sum();
    let row = width * dtype.size();
    let mut bytes = Vec::with_capacity(count.next_multiple_of(INTERLEAVED) * row);
    if is_on_host() || parts.len() > 1 {
        parts.iter().for_each(|(_, l)| bytes.extend_from_slice(l.bytes()));
    }
    let tensor: Tensor = match (is_on_host(), &parts[..]) {
        (true, _) => {
            // The last group is filled with rows of zeros.
            bytes.resize(count.next_multiple_of(INTERLEAVED) * row, 0);
            let packed = interleaved(format, &bytes, row)?;
            Literal::from_bytes(DType::U8, [packed.len() / row, row], &packed)?.into()
        }
        (false, [(_, one)]) => placed(&one.clone().into()).eval()?.clone(),
        (false, _) => placed(&Literal::from_bytes(dtype, [count, width], &bytes)?.into()).eval()?.clone(),
    };
    Ok(Some(Weights { tensor, format, rows }))
}

/// Interleaves groups of rows, on all processors.
fn interleaved(format: Format, bytes: &[u8], row: usize) -> Result<Vec<u8>> {
    let group = INTERLEAVED * row;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let share = (bytes.len() / group).div_ceil(threads).max(1) * group;
    let parts = std::thread::scope(|s| {
        let work = |part| move || interleave(format, part, part.len() / row);
        let all: Vec<_> = bytes.chunks(share).map(|part: &[u8]| s.spawn(work(part))).collect();
        all.into_iter().map(|t| t.join().map_err(|_| ir::Error::bug("weights were not packed"))?).collect::<Vec<_>>()
    });
    let mut out = Vec::with_capacity(bytes.len());
    for part in parts {
        out.extend(part?);
    }
    Ok(out)
}

//! Finds epilogues that turn sums of bytes into numbers and bytes again, which one kernel computes
//! ([`crate::kernels::requantize`]) instead of a loop that takes a pass for each operation.

use super::access::Spot;
use super::functions::{ADD, MAX, MIN, MUL, ROUND, SUB};
use crate::kernels::requantize::{Middle, Quantized, Requantize, Residual};
use ir::{DType, Graph, Literal, Meaning, Out, Slot};
use passes::{Loop, Step};
use smallvec::SmallVec;

/// What a step of such a loop is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Sums(Sums),
    /// The same as `f32`.
    Floats(Sums),
    /// One `i32` a column.
    Integers(Spot),
    /// One number.
    Number(f32),
    /// One `f32` a column.
    Column(Spot),
    /// What may be added, laid out as the sums.
    Dense(Residual<Spot>),
    /// Bytes laid out so: where they are, whether they are signed, and the zero point that was taken from them.
    Given(Spot, bool, f32),
    /// The same as `f32`.
    GivenFloats(Spot, bool, f32),
    Real(Real),
    /// Numbers in steps.
    Steps(Steps),
    /// The same as bytes.
    Bytes(Steps),
    /// Bytes as numbers.
    Whole(Steps),
    /// The same less the zero point.
    Centered(Steps),
    /// The same in steps of a size.
    Numbers(Steps, f32),
}

impl Form {
    /// Numbers that descend from the sums, those that were bytes before included.
    fn real(self) -> Option<Real> {
        match self {
            Form::Real(r) => Some(r),
            Form::Numbers(s, scale) if s.real.middle.is_none() && s.real.residual.is_none() => {
                // Products and rounding keep the order of numbers, so both ranges are one.
                let (low, high) = s.range_of_steps();
                let range = (low.max(s.real.range.0 * s.by), high.min(s.real.range.1 * s.by));
                Some(Real { middle: Some(Middle { by: s.by, range, scale }), range: ALL, ..s.real })
            }
            _ => None,
        }
    }
}

/// Sums of the kernel, or of another one that stored them, perhaps with an integer added to each column.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sums {
    stored: Option<Spot>,
    offset: Option<Spot>,
}

/// `(sums + offset) * scale + bias`, perhaps as bytes and back, plus a residual, held in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Real {
    sums: Sums,
    scale: Spot,
    bias: Option<Spot>,
    middle: Option<Middle>,
    residual: Option<Residual<Spot>>,
    range: (f32, f32),
}

impl Real {
    /// The numbers of sums that another kernel has stored, to be added.
    fn residual(self) -> Option<Residual<Spot>> {
        let Sums { stored, offset } = self.sums;
        let (at, is_plain) = (stored?, self.residual.is_none() && self.range == ALL);
        is_plain.then_some(Residual::Sums { at, offset, scale: self.scale, bias: self.bias, middle: self.middle })
    }
}

/// `round(real * by) + zero`, held in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Steps {
    real: Real,
    by: f32,
    is_rounded: bool,
    zero: f32,
    range: (f32, f32),
}

impl Steps {
    /// The range before the zero point is added.
    fn range_of_steps(&self) -> (f32, f32) {
        (self.range.0 - self.zero, self.range.1 - self.zero)
    }
}

const ALL: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

/// `max(x, low)` after a range, unless the range ends below.
fn raised(range: (f32, f32), low: f32) -> Option<(f32, f32)> {
    (low <= range.1).then(|| (range.0.max(low), range.1))
}
/// `min(x, high)` after a range. An end below the beginning wins, as in the loop.
fn lowered(range: (f32, f32), high: f32) -> Option<(f32, f32)> {
    high.partial_cmp(&range.0).is_some().then(|| (range.0.min(high), range.1.min(high)))
}

/// The kernel's form of a loop that takes the sums `slot`, if it has one.
pub fn recognize(l: &Loop, graph: &Graph, slot: Slot, spot: &dyn Fn(Slot) -> Spot) -> Option<Requantize<Spot>> {
    let [_, columns] = l.dims[..] else { return None };
    if l.inner != 1 {
        return None;
    }
    let dense = [columns as isize, 1];
    let mut forms: Vec<Form> = Vec::with_capacity(l.steps.len());
    for step in &l.steps {
        let form = match step {
            Step::Load { root, .. } if *root == slot => Form::Sums(Sums { stored: None, offset: None }),
            Step::Load { root, strides, offset } => {
                let (at, dtype) = (spot(*root), graph.ty(*root).dtype);
                let at = Spot { offset: at.offset + offset * dtype.size(), ..at };
                match (dtype, &strides[..]) {
                    (DType::I32, [0, 1]) => Form::Integers(at),
                    (DType::F32, [0, 1]) => Form::Column(at),
                    (DType::F32, s) if s == dense => Form::Dense(Residual::Real(at)),
                    (DType::I32, s) if s == dense => Form::Sums(Sums { stored: Some(at), offset: None }),
                    (DType::I8 | DType::U8, s) if s == dense => Form::Given(at, dtype == DType::I8, 0.0),
                    _ => return None,
                }
            }
            Step::Const(c) if c.dtype() == DType::F32 => Form::Number(number(c)?),
            Step::Scalar { node, args, row: false } => {
                let n = &graph.nodes[*node as usize];
                let Meaning::Scalar(s) = n.op.meaning else { return None };
                let to = n.outs[0].dtype;
                match args[..] {
                    [x] if s.out == Out::Cast => cast(forms[x as usize], to)?,
                    [x] if s.code == ROUND => rounded(forms[x as usize])?,
                    [a, b] if to == DType::F32 && s.code == SUB => match (forms[a as usize], forms[b as usize]) {
                        (Form::Whole(s), Form::Number(zero)) if s.zero == zero => Form::Centered(s),
                        (Form::GivenFloats(at, is_signed, 0.0), Form::Number(zero)) => {
                            Form::GivenFloats(at, is_signed, zero)
                        }
                        _ => return None,
                    },
                    [a, b] if to == DType::F32 => {
                        let (a, b) = (forms[a as usize], forms[b as usize]);
                        combined(s.code, a, b).or_else(|| combined(s.code, b, a))?
                    }
                    [a, b] if to == DType::I32 && s.code == ADD => match (forms[a as usize], forms[b as usize]) {
                        (Form::Sums(s), Form::Integers(at)) | (Form::Integers(at), Form::Sums(s))
                            if s.offset.is_none() =>
                        {
                            Form::Sums(Sums { offset: Some(at), ..s })
                        }
                        _ => return None,
                    },
                    _ => return None,
                }
            }
            _ => return None,
        };
        forms.push(form);
    }
    stored(l, graph, &forms, spot)
}

/// The only number of a literal, unless it is NaN.
fn number(c: &Literal) -> Option<f32> {
    let x = f32::from_ne_bytes(c.bytes().try_into().ok()?);
    (!x.is_nan()).then_some(x)
}

fn cast(x: Form, to: DType) -> Option<Form> {
    let least = if to == DType::U8 { 0.0 } else { -128.0 };
    match x {
        Form::Sums(sums) if to == DType::F32 => Some(Form::Floats(sums)),
        Form::Given(at, is_signed, zero) if to == DType::F32 => Some(Form::GivenFloats(at, is_signed, zero)),
        Form::Bytes(s) if to == DType::F32 => Some(Form::Whole(s)),
        // What is cast is inside the type.
        Form::Steps(s) if matches!(to, DType::I8 | DType::U8) => {
            let is_inside = s.is_rounded && s.range.0 >= least && s.range.1 <= least + 255.0;
            let are_whole = s.range.0.fract() == 0.0 && s.range.1.fract() == 0.0;
            (is_inside && are_whole).then_some(Form::Bytes(s))
        }
        _ => None,
    }
}

fn rounded(x: Form) -> Option<Form> {
    match x {
        // In steps already.
        Form::Real(real) => Some(Form::Steps(Steps { real, by: 1.0, is_rounded: true, zero: 0.0, range: ALL })),
        Form::Steps(s) if !s.is_rounded => Some(Form::Steps(Steps { is_rounded: true, ..s })),
        _ => None,
    }
}

/// An operation on a value that descends from the sums and another one.
fn combined(code: &str, x: Form, y: Form) -> Option<Form> {
    let real = match (code, x, y) {
        (MUL, Form::Floats(sums), Form::Column(scale)) => {
            Real { sums, scale, bias: None, middle: None, residual: None, range: ALL }
        }
        (MUL, Form::GivenFloats(at, is_signed, zero), Form::Number(scale)) => {
            return Some(Form::Dense(Residual::Bytes { at, is_signed, zero, scale }));
        }
        (MUL, Form::Centered(s), Form::Number(scale)) => return Some(Form::Numbers(s, scale)),
        (MUL, Form::Whole(s), Form::Number(scale)) if s.zero == 0.0 => return Some(Form::Numbers(s, scale)),
        (ADD, Form::Real(r), Form::Column(at)) => {
            let is_first = r.bias.is_none() && r.middle.is_none() && r.residual.is_none() && r.range == ALL;
            return is_first.then_some(Form::Real(Real { bias: Some(at), ..r }));
        }
        (ADD, x, Form::Dense(_) | Form::Real(_) | Form::Numbers(..)) => {
            let r = x.real().filter(|r| r.sums.stored.is_none() && r.residual.is_none() && r.range == ALL)?;
            let other = if let Form::Dense(other) = y { other } else { y.real()?.residual()? };
            Real { residual: Some(other), ..r }
        }
        (ADD, Form::Steps(s), Form::Number(zero)) if s.is_rounded && s.zero == 0.0 && s.range == ALL => {
            let is_byte = zero.fract() == 0.0 && zero.abs() < 256.0;
            return is_byte.then_some(Form::Steps(Steps { zero, ..s }));
        }
        (MAX, Form::Steps(s), Form::Number(low)) if s.is_rounded => {
            return Some(Form::Steps(Steps { range: raised(s.range, low)?, ..s }));
        }
        (MIN, Form::Steps(s), Form::Number(high)) if s.is_rounded => {
            return Some(Form::Steps(Steps { range: lowered(s.range, high)?, ..s }));
        }
        (MAX, x, Form::Number(low)) => {
            let r = x.real()?;
            Real { range: raised(r.range, low)?, ..r }
        }
        (MIN, x, Form::Number(high)) => {
            let r = x.real()?;
            Real { range: lowered(r.range, high)?, ..r }
        }
        (MUL, x, Form::Number(by)) if by > 0.0 && by.is_finite() => {
            let real = x.real()?;
            return Some(Form::Steps(Steps { real, by, is_rounded: false, zero: 0.0, range: ALL }));
        }
        _ => return None,
    };
    Some(Form::Real(real))
}

/// The kernel for what is kept: the numbers once, bytes of the same numbers, and the numbers of these bytes.
fn stored(l: &Loop, graph: &Graph, forms: &[Form], spot: &dyn Fn(Slot) -> Spot) -> Option<Requantize<Spot>> {
    let columns = l.columns();
    let (mut of, mut real) = (None, None);
    let mut bytes: SmallVec<[(Steps, Quantized<Spot>); 2]> = SmallVec::new();
    let mut numbers: SmallVec<[(Steps, f32, Spot); 2]> = SmallVec::new();
    for s in &l.stores {
        let is_dense = s.strides[..] == [columns as isize, 1];
        let at = spot(s.slot);
        let at = Spot { offset: at.offset + s.offset * graph.ty(s.slot).dtype.size(), ..at };
        let it = match forms[s.step as usize] {
            Form::Real(r) if real.is_none() => {
                real = Some(at);
                r
            }
            Form::Bytes(s) => {
                let q = Quantized { by: s.by, range: s.range_of_steps(), zero: s.zero, to: at, numbers: None };
                bytes.push((s, q));
                s.real
            }
            Form::Numbers(s, scale) => {
                numbers.push((s, scale, at));
                s.real
            }
            _ => return None,
        };
        if !is_dense || *of.get_or_insert(it) != it {
            return None;
        }
    }
    for (s, scale, at) in numbers {
        let (_, q) = bytes.iter_mut().find(|(of, q)| *of == s && q.numbers.is_none())?;
        q.numbers = Some((scale, at));
    }
    let bytes: SmallVec<[Quantized<Spot>; 2]> = bytes.into_iter().map(|(_, q)| q).collect();
    let Real { sums: Sums { stored, offset }, scale, bias, middle, residual, range } = of?;
    // Bytes must not replace numbers of a residual that others still read; they may replace its bytes, one by one.
    let is_apart = match residual {
        Some(Residual::Real(at) | Residual::Sums { at, .. }) => bytes.iter().all(|b| b.to != at),
        Some(Residual::Bytes { at, .. }) => {
            real != Some(at) && bytes.iter().all(|b| b.numbers.is_none_or(|n| n.1 != at))
        }
        None => true,
    };
    (is_apart && stored.is_none()).then_some(Requantize {
        columns,
        offset,
        scale,
        bias,
        middle,
        residual,
        range,
        real,
        bytes,
    })
}

//! Finds loops after a convolution that add a number for each channel and a residual, and hold the result in a range:
//! one kernel computes them ([`crate::kernels::epilogue`]) on every part of the result that is ready.

use super::access::Spot;
use super::functions::{ADD, MAX, MIN};
use crate::kernels::epilogue::Epilogue;
use ir::{DType, Graph, Meaning, Slot};
use passes::{Loop, Step};

/// What a step of such a loop is.
#[derive(Clone, Copy)]
enum Form {
    /// What became of the sums so far.
    Sums {
        bias: Option<Spot>,
        residual: Option<Spot>,
        range: (f32, f32),
    },
    /// One number for each row.
    Row(Spot),
    /// Numbers laid out as the sums.
    Dense(Spot),
    Number(f32),
}

const ALL: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

/// The kernel's form of a loop that takes the sums `slot`, if it has one.
pub fn recognize(l: &Loop, graph: &Graph, slot: Slot, spot: &dyn Fn(Slot) -> Spot) -> Option<Epilogue<Spot>> {
    let ([_, columns], [store]) = (&l.dims[..], &l.stores[..]) else { return None };
    let dense = [*columns as isize, 1];
    if l.inner != 1 || graph.ty(slot).dtype != DType::F32 || graph.ty(store.slot).dtype != DType::F32 {
        return None;
    }
    let place = |s: Slot, offset: usize| {
        let at = spot(s);
        Spot { offset: at.offset + offset * size_of::<f32>(), ..at }
    };
    let mut forms: Vec<Form> = Vec::with_capacity(l.steps.len());
    for step in &l.steps {
        forms.push(match step {
            Step::Load { root, .. } if *root == slot => Form::Sums { bias: None, residual: None, range: ALL },
            Step::Load { root, strides, offset } if graph.ty(*root).dtype == DType::F32 => match strides[..] {
                [1, 0] => Form::Row(place(*root, *offset)),
                [r, c] if [r, c] == dense => Form::Dense(place(*root, *offset)),
                _ => return None,
            },
            Step::Const(c) if c.dtype() == DType::F32 => Form::Number(f32::from_ne_bytes(c.bytes().try_into().ok()?)),
            Step::Scalar { node, args, row: false } => {
                let n = &graph.nodes[*node as usize];
                let (Meaning::Scalar(s), [a, b]) = (n.op.meaning, &args[..]) else { return None };
                let (a, b) = (forms[*a as usize], forms[*b as usize]);
                combined(s.code, a, b).or_else(|| combined(s.code, b, a))?
            }
            _ => return None,
        });
    }
    let Form::Sums { bias, residual, range } = forms[store.step as usize] else { return None };
    let to = place(store.slot, store.offset);
    (store.strides[..] == dense).then_some(Epilogue { columns: *columns, sums: spot(slot), bias, residual, range, to })
}

/// An operation on what became of the sums and on something else.
fn combined(code: &str, x: Form, y: Form) -> Option<Form> {
    let Form::Sums { bias, residual, range } = x else { return None };
    Some(match (code, y) {
        (ADD, Form::Row(at)) if bias.is_none() && residual.is_none() && range == ALL => {
            Form::Sums { bias: Some(at), residual, range }
        }
        (ADD, Form::Dense(at)) if residual.is_none() && range == ALL => Form::Sums { bias, residual: Some(at), range },
        (MAX, Form::Number(low)) if range.0 == ALL.0 && low <= range.1 => {
            Form::Sums { bias, residual, range: (low, range.1) }
        }
        (MIN, Form::Number(high)) if range.1 == ALL.1 && high >= range.0 => {
            Form::Sums { bias, residual, range: (range.0, high) }
        }
        _ => return None,
    })
}

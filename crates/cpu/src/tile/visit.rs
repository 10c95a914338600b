//! The values that an instruction reads and writes.

use super::{Instr, Val};

/// Calls `f(value, is_result)` for the values of an instruction.
pub(super) fn visit(instr: &Instr, mut f: impl FnMut(Val, bool)) {
    match instr {
        Instr::Read { y, .. } | Instr::ReadSum { y, .. } => f(*y, true),
        Instr::Write { x, .. } | Instr::Accumulate { x, .. } => f(*x, false),
        Instr::AccumulateRead { .. } => {}
        Instr::Unary { x, y, .. } => {
            f(*x, false);
            f(*y, true);
        }
        Instr::Binary { a, b, y, .. } => {
            f(a.val, false);
            f(b.val, false);
            f(y.val, true);
        }
        Instr::Dot { a, b, y } => {
            f(a.val, false);
            f(b.val, false);
            f(*y, true);
        }
        Instr::Select { c, a, b, y, .. } | Instr::Chain { c, a, b, y, .. } => {
            for v in [c, a, b] {
                f(v.val, false);
            }
            f(y.val, true);
        }
        Instr::Triple { args, y, .. } => {
            args.iter().for_each(|a| f(a.val, false));
            f(y.val, true);
        }
        Instr::Each { args, y, .. } => {
            args.iter().for_each(|(a, _)| f(a.val, false));
            f(y.val, true);
        }
        Instr::Expand { x, y } => {
            f(x.val, false);
            f(y.val, true);
        }
        Instr::Rows { x, y, .. } => {
            f(x.val, false);
            f(*y, true);
        }
    }
}

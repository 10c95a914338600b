//! Joins neighboring instructions where one pass does the work of two or three: `(a op b) op c`, the sum of a
//! product's row, and reductions of rows that are read from memory.

use super::chain::{self, Simple};
use super::functions::MUL;
use super::lane::Lane;
use super::visit::visit;
use super::{Arg, Instr, Val};
use ir::Monoid;

/// Joins instructions; `lane` tells a value's lane, `is_kept` whether it is needed elsewhere, `is_of_columns` whether an
/// accumulator has one number a column.
pub fn join(
    instrs: &mut Vec<Instr>,
    lane: impl Fn(Val) -> Lane,
    is_kept: impl Fn(Val) -> bool,
    is_of_columns: impl Fn(usize) -> bool,
) {
    let mut uses: Vec<(u32, usize)> = Vec::new();
    for (i, instr) in instrs.iter().enumerate() {
        visit(instr, |v, is_result| {
            if uses.len() <= v as usize {
                uses.resize(v as usize + 1, (0, 0));
            }
            if !is_result {
                let u = &mut uses[v as usize];
                *u = (u.0 + 1, i);
            }
        });
    }
    let mut gone = vec![false; instrs.len()];
    for i in 0..instrs.len() {
        if let Instr::Read { access, dtype, y } = &instrs[i]
            && access.is_summed_down(*dtype)
            && !is_kept(*y)
            && let Some(&(1, next)) = uses.get(*y as usize)
        {
            // Floats of 16 bits are widened before they are added.
            let (wide, at) = match &instrs[next] {
                Instr::Unary { y: wide, .. } if lane(*y) == Lane::Half && lane(*wide) == Lane::F32 => {
                    (*wide, uses.get(*wide as usize).filter(|u| u.0 == 1 && !is_kept(*wide)).map(|u| u.1))
                }
                _ => (*y, Some(next)),
            };
            if let Some(at) = at
                && let Instr::Rows { monoid: Monoid::Sum, x, y: sums, .. } = &instrs[at]
                && x.val == wide
            {
                let joined = Instr::ReadSum { access: access.clone(), dtype: *dtype, y: *sums };
                gone[next] = at != next;
                instrs[at] = joined;
                gone[i] = true;
                continue;
            }
        }
        if let Instr::Read { access, y, .. } = &instrs[i]
            && let Some(apart) = access.row_distance()
            && !is_kept(*y)
            && let Some(&(1, at)) = uses.get(*y as usize)
            && let Instr::Accumulate { to, .. } = &instrs[at]
            && is_of_columns(*to)
        {
            let joined = Instr::AccumulateRead { to: *to, access: access.clone(), apart };
            instrs[at] = joined;
            gone[i] = true;
            continue;
        }
        if let Instr::Chain { ops, a, b, c, y, .. } = &instrs[i]
            && let Some(&(1, at)) = uses.get(y.val as usize)
            && !is_kept(y.val)
            && let Instr::Binary { code, a: left, b: right, y: z, .. } = &instrs[at]
            && lane(z.val) == lane(y.val)
            && z.span == y.span
        {
            let is_first = left.val == y.val;
            let third = Simple::new(code, is_first);
            if let Some(f) = third.and_then(|third| chain::triples(lane(z.val), ops.0, ops.1, third)) {
                let joined = Instr::Triple { f, args: [*a, *b, *c, if is_first { *right } else { *left }], y: *z };
                instrs[at] = joined;
                gone[i] = true;
            }
            continue;
        }
        let Instr::Binary { code, a, b, y, .. } = &instrs[i] else { continue };
        let (code, a, b, y) = (*code, *a, *b, *y);
        let (count, at) = uses.get(y.val as usize).copied().unwrap_or_default();
        if code.is_empty() || count != 1 || is_kept(y.val) {
            continue;
        }
        let joined = match &instrs[at] {
            Instr::Binary { code: second, a: c, b: d, y: z, .. } if z.span == y.span => {
                let is_first = c.val == y.val;
                chained(lane(y.val), (code, a, b, y), (second, is_first), if is_first { *d } else { *c }, *z)
            }
            Instr::Rows { monoid: Monoid::Sum, x, y: z, .. }
                if code == MUL && lane(y.val) == Lane::F32 && a.span == x.span && b.span == x.span =>
            {
                Some(Instr::Dot { a, b, y: *z })
            }
            _ => None,
        };
        if let Some(joined) = joined {
            instrs[at] = joined;
            gone[i] = true;
        }
    }
    let mut gone = gone.into_iter();
    instrs.retain(|_| !gone.next().unwrap_or(false));
}

/// The chain of `first` and then an operation with `c` in a lane, if both are simple.
fn chained(lane: Lane, first: (&str, Arg, Arg, Arg), second: (&str, bool), c: Arg, z: Arg) -> Option<Instr> {
    let (code, a, b, y) = first;
    // The chain runs along an operand that varies as the result does.
    let (p, a, b) = if a.span == y.span {
        (Simple::new(code, true)?, a, b)
    } else if b.span == y.span {
        (Simple::new(code, false)?, b, a)
    } else {
        return None;
    };
    let q = Simple::new(second.0, second.1)?;
    Some(Instr::Chain { ops: (p, q), f: chain::loops(lane, p, q)?, a, b, c, y: z })
}

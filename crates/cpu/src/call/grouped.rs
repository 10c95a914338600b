//! `grouped_mm`: a GEMM for each group.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, never, rows};
use crate::kernels::gemm::{Gemm, Mat, Multiply, Output};
use crate::tile::access::Bases;
use ir::{DType, FlatNode, bf16, f16};
use passes::View;

/// GEMMs of groups.
pub static CLAIMS: &[Claim] = &[Claim {
    accepts: |_, operand, _| operand < 2,
    flops,
    ..Claim::new("grouped_mm", never, |_, args, outs| Ok(prepare(args, outs)))
}];

fn flops(n: &FlatNode, args: &[View]) -> usize {
    let (a, b) = (&args[0].layout.shape, &args[1].layout.shape);
    let columns = b.last().copied().unwrap_or(1);
    // The product of all groups: with one matrix of a stack for each row, column or inner element.
    let all = if a.rank() == 3 { a[1] * a[2] * columns } else { a.count() * columns };
    if n.outs[0].shape.count() == 0 { 0 } else { 2 * all }
}

fn prepare(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    fn of<S: Multiply + Output<S::Acc>>(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
        let (args, out) = (args.to_vec(), outs[0].clone());
        Some(Box::new(move |bases| {
            run::<S>(&args, &out, bases);
            Ok(())
        }))
    }
    match outs[0].ty.dtype {
        DType::F32 if const { ir::is_linked("f32") } => of::<f32>(args, outs),
        DType::F64 if const { ir::is_linked("f64") } => of::<f64>(args, outs),
        DType::BF16 if const { ir::is_linked("bf16") } => of::<bf16>(args, outs),
        DType::F16 if const { ir::is_linked("f16") } => of::<f16>(args, outs),
        _ => None,
    }
}

/// The groups of `size` elements: begin and end of each.
fn groups(ends: &[i64], size: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut begin = 0;
    ends.iter().map(move |&end| {
        let from = begin;
        begin = usize::try_from(end).unwrap_or(0).clamp(from, size);
        (from, begin)
    })
}

fn run<S: Multiply + Output<S::Acc>>(args: &[Operand], out: &Operand, bases: Bases) {
    let (a, b, c) = (&args[0], &args[1], out.first::<S>(bases));
    let matrix = |o: &Operand| {
        let (l, r) = (&o.layout, o.layout.shape.rank());
        let mat = Mat { p: o.first::<S>(bases).cast_const(), row: l.strides[r - 2], col: l.strides[r - 1] };
        (mat, if r == 3 { l.strides[0] } else { 0 })
    };
    let ((x, next_x), (y, next_y)) = (matrix(a), matrix(b));
    let (sa, sb) = (&a.layout.shape, &b.layout.shape);
    let (m, k, n) = (sa[sa.rank() - 2], sa[sa.rank() - 1], sb[sb.rank() - 1]);
    let stepped = |mat: Mat<S>, by: isize| Mat { p: mat.p.wrapping_offset(by), ..mat };
    // SAFETY: the layouts lie inside their buffers, groups are parts of them that do not overlap, and the result is apart
    // from the operands. Zero bytes are the number zero.
    unsafe {
        let ends = rows::<i64>(&args[2], bases);
        if k == 0 {
            return std::ptr::write_bytes(c, 0, out.ty.shape.count());
        }
        match (sa.rank(), sb.rank()) {
            (2, 3) => {
                let mut last = 0;
                for (g, (from, to)) in groups(ends, m).enumerate() {
                    let (x, y) = (x.down(from), stepped(y, g as isize * next_y));
                    Gemm::<S, S>::new(to - from, n, k, x, y, c.add(from * n)).run();
                    last = to;
                }
                std::ptr::write_bytes(c.add(last * n), 0, (m - last) * n);
            }
            (3, 2) => {
                let mut last = 0;
                for (g, (from, to)) in groups(ends, n).enumerate() {
                    let (x, y) = (stepped(x, g as isize * next_x), y.right(from));
                    Gemm { c_row: n as isize, ..Gemm::<S, S>::new(m, to - from, k, x, y, c.add(from)) }.run();
                    last = to;
                }
                (0..m).for_each(|i| std::ptr::write_bytes(c.add(i * n + last), 0, n - last));
            }
            _ => {
                for (g, (from, to)) in groups(ends, k).enumerate() {
                    let c = c.add(g * m * n);
                    match to - from {
                        0 => std::ptr::write_bytes(c, 0, m * n),
                        inner => Gemm::<S, S>::new(m, n, inner, x.right(from), y.down(from), c).run(),
                    }
                }
            }
        }
    }
}

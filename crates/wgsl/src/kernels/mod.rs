//! Kernels as WGSL. A kernel's file has a [`Claim`] for each op it computes.

use crate::claims::Claim;
use crate::element::{Val, cast};
use crate::kernel::{Kernel, Ptr};
use ir::DType;
use passes::Operand;

/// Declares the files of kernels and lists their rows.
macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $( pub mod $name; )*
        /// The rows of all files.
        pub static CLAIMS: &[&[Claim]] = &[$( $name::CLAIMS ),*];
    };
}
files! { attention, axis, conv, gemm, moves, pooling, scatter, search, sort }

/// Kernels with their scratch bytes.
type Kernels = Option<(Vec<Kernel>, usize)>;

/// Kernels without scratch space.
fn plain(kernels: Option<Vec<Kernel>>) -> Kernels {
    Some((kernels?, 0))
}

/// Element `i` of an index, as two words.
fn index_at(p: &Ptr, o: &Operand, i: &str) -> Option<String> {
    cast(&Val { text: p.at(i), dtype: o.ty.dtype }, DType::I64)
}

/// Whether every operand is small enough for places of 31 bits.
pub fn is_small(o: &Operand) -> bool {
    o.ty.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_some_and(|n| n < 1 << 31)
        && o.layout.offset < 1 << 31
}

//! Promotion between operands, and Rust's operators.

use crate::operand::Number;
use crate::{Operand, Tensor, scalar};
use ir::{Attrs, DType, Op, Result, Site};
use std::ops;

/// The common type of several; fp8 have none with others.
pub(crate) fn common(dtypes: &[DType]) -> Result<DType> {
    let all = dtypes.iter().fold(dtypes[0], |a, &b| a.promote(b));
    if dtypes.iter().any(|&d| d != all) {
        all.check_computes()?;
    }
    Ok(all)
}

impl Tensor {
    /// Converts to `dtype`; the same tensor if it has it already.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        match self.value() {
            Ok(v) if v.ty().dtype != dtype => {
                Tensor::apply1(&scalar::cast::OP, &[self], Attrs::new().with("dtype", dtype))
            }
            _ => self.clone(),
        }
    }
    /// Both operands in their common type.
    pub(crate) fn promoted(&self, other: impl Operand) -> Result<(Tensor, Tensor)> {
        let (a, b) = other.beside(self)?;
        let dtype = common(&[a.value()?.ty().dtype, b.value()?.ty().dtype])?;
        Ok((a.cast(dtype), b.cast(dtype)))
    }
    /// An elementwise op of two operands, promoted.
    #[track_caller]
    pub(crate) fn binary(&self, op: &'static Op, other: impl Operand) -> Tensor {
        let site = Site::here();
        site.scope(|| match self.promoted(other) {
            Ok((a, b)) => Tensor::apply1(op, &[&a, &b], Attrs::new()),
            Err(e) => e.into(),
        })
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident),* $(,)?) => {$(
        impl<R: Operand> ops::$trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                Tensor::$method(self, rhs)
            }
        }
        impl<R: Operand> ops::$trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                Tensor::$method(&self, rhs)
            }
        }
        operators!(@left $trait $method, f64, i32);
    )*};
    // One float and one integer type, so that a literal on the left needs no annotation.
    (@left $trait:ident $method:ident, $($n:ty),*) => {$(
        impl ops::$trait<Tensor> for $n {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                left(self, &rhs, |a, b| Tensor::$method(a, b))
            }
        }
        impl ops::$trait<&Tensor> for $n {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                left(self, rhs, |a, b| Tensor::$method(a, b))
            }
        }
    )*};
}
operators!(Add add, Sub sub, Mul mul, Div div, Rem rem);

/// A number on the left of an operator.
#[track_caller]
fn left<N: Number>(n: N, t: &Tensor, f: impl FnOnce(&Tensor, &Tensor) -> Tensor) -> Tensor {
    let site = Site::here();
    site.scope(|| match t.value() {
        Ok(v) => f(&n.operand(v.ty().dtype), t),
        Err(_) => t.clone(),
    })
}

impl ops::Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}
impl ops::Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}
impl std::iter::Sum for Tensor {
    fn sum<I: Iterator<Item = Tensor>>(mut it: I) -> Tensor {
        let first = it.next().unwrap_or_else(|| Tensor::from(0.0f32));
        it.fold(first, |a, b| a + b)
    }
}

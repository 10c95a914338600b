//! What rows are made of: type rules, gradient helpers, sample values, and the macros that write
//! a row and its method together.

use crate::Tensor;
use ir::{Call, Case, DType, Error, GradCall, Literal, Result, Shape, Type, Types, Value};
use smallvec::SmallVec;

/// The types of an op with one result.
pub fn one(dtype: DType, shape: impl Into<Shape>) -> Result<Types> {
    Ok(SmallVec::from_iter([Type::new(dtype, shape)]))
}
/// Input `i`, or that it is missing.
fn input<'a>(c: &Call<'a>, i: usize) -> Result<&'a Type> {
    let missing = || Error::value(format!("input {i} is missing: {} were given", c.types.len()));
    c.types.get(i).ok_or_else(missing)
}
/// The first input's element type in another shape.
pub fn reshaped(c: &Call, shape: impl Into<Shape>) -> Result<Types> {
    one(input(c, 0)?.dtype, shape)
}
/// The product of sizes, refused where it could not be addressed.
pub fn product<'a>(sizes: impl IntoIterator<Item = &'a usize>) -> Result<usize> {
    let mut out = 1usize;
    let mut all = SmallVec::<[usize; 4]>::new();
    for &d in sizes {
        all.push(d);
        out = out.saturating_mul(d);
    }
    if out <= isize::MAX as usize / 2 {
        return Ok(out);
    }
    Err(Error::shape(format!("the product of {all:?} is too large")))
}
/// The type of input `i`.
pub fn same(c: &Call, i: usize) -> Result<Types> {
    Ok(SmallVec::from_iter([input(c, i)?.clone()]))
}
/// Fails unless input `i` is float. Complex numbers pass: primitive rows never meet them, and
/// composites consist of ops that say what they mean.
pub fn float(c: &Call, i: usize) -> Result<()> {
    let dtype = input(c, i)?.dtype;
    dtype.check_computes()?;
    if dtype.is_inexact() {
        return Ok(());
    }
    Err(Error::dtype(format!("input {i} must be a float, not {dtype}")))
}
/// Fails unless input `i` is a float that is no complex number.
pub fn real(c: &Call, i: usize) -> Result<()> {
    float(c, i)?;
    let dtype = input(c, i)?.dtype;
    if dtype.is_float() { Ok(()) } else { Err(Error::dtype(format!("input {i} must be a real number, not {dtype}"))) }
}
/// Fails unless input `i` is of a type that is computed with.
pub fn number(c: &Call, i: usize) -> Result<()> {
    input(c, i)?.dtype.check_computes()
}
/// Fails unless input `i` is an integer.
pub fn integer(c: &Call, i: usize) -> Result<()> {
    let dtype = input(c, i)?.dtype;
    if dtype.is_int() {
        return Ok(());
    }
    Err(Error::dtype(format!("input {i} must be an integer, not {dtype}")))
}
/// Fails unless all inputs have one element type.
pub fn one_dtype(c: &Call) -> Result<DType> {
    let first = c.types.first().ok_or_else(|| Error::value("at least one input is needed"))?.dtype;
    match c.types.iter().find(|t| t.dtype != first) {
        None => Ok(first),
        Some(t) => Err(Error::dtype(format!("element types differ: {first} and {}", t.dtype))),
    }
}
/// The types of a composite, found by expanding it.
pub fn by_expansion(c: &Call, expand: fn(&Call, &[Value]) -> Result<Vec<Value>>) -> Result<Types> {
    crate::memo::types(expand, c, || {
        let site = ir::Site::here();
        let args: Vec<Value> = c.types.iter().map(|t| Value::placeholder("", t.clone(), site)).collect();
        Ok(crate::autocast::off(|| expand(c, &args))?.iter().map(|v| v.ty().clone()).collect())
    })
}

/// A composite's body as it stands in a row: tensors in, tensors out.
pub fn expand(args: &[Value], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Vec<Value>> {
    let tensors = tensors_of(args);
    values_of(&crate::autocast::off(|| f(&tensors))?)
}
fn tensors_of(args: &[Value]) -> Vec<Tensor> {
    args.iter().cloned().map(Tensor::from).collect()
}
fn values_of(tensors: &[Tensor]) -> Result<Vec<Value>> {
    tensors.iter().map(|t| t.value().cloned()).collect()
}
/// A composite's body that computes in f32 where its inputs are 16-bit floats, which would be rounded
/// at every step and overflow inside; its results have their type again.
pub fn expand_wide(args: &[Value], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Vec<Value>> {
    expand(args, |t| match narrow_of(t) {
        None => f(t),
        Some(narrow) => f(&widened(t)).map(|results| narrowed(results, narrow)),
    })
}
/// The first tensor of 16-bit floats.
fn narrow_of(tensors: &[Tensor]) -> Option<&Tensor> {
    tensors.iter().find(|t| t.dtype().is_ok_and(|d| matches!(d, DType::F16 | DType::BF16)))
}
fn widened(tensors: &[Tensor]) -> Vec<Tensor> {
    tensors.iter().map(Tensor::widened).collect()
}
fn narrowed(results: Vec<Tensor>, narrow: &Tensor) -> Vec<Tensor> {
    let back = |y: Tensor| if y.dtype().is_ok_and(|d| d == DType::F32) { y.cast_like(narrow) } else { y };
    results.into_iter().map(back).collect()
}
/// [`expand_wide`] with one result.
pub fn expand1_wide(args: &[Value], f: impl FnOnce(&[Tensor]) -> Tensor) -> Result<Vec<Value>> {
    expand_wide(args, |t| Ok(vec![f(t)]))
}
/// A composite's body with one result.
pub fn expand1(args: &[Value], f: impl FnOnce(&[Tensor]) -> Tensor) -> Result<Vec<Value>> {
    expand(args, |t| Ok(vec![f(t)]))
}

/// The pieces of a gradient call as tensors.
pub trait GradTensors {
    /// Input `i`.
    fn x(&self, i: usize) -> Tensor;
    /// Output `i`.
    fn y(&self, i: usize) -> Tensor;
    /// Gradient of output `i`, zeros if none reached it.
    fn g(&self, i: usize) -> Tensor;
}
impl GradTensors for GradCall<'_> {
    fn x(&self, i: usize) -> Tensor {
        self.inputs[i].clone().into()
    }
    fn y(&self, i: usize) -> Tensor {
        self.outputs[i].clone().into()
    }
    fn g(&self, i: usize) -> Tensor {
        match &self.grads[i] {
            Some(g) => g.clone().into(),
            None => self.y(i).zeros_like(),
        }
    }
}
/// Gradients for each input, in order.
pub fn grads<const N: usize>(list: [Tensor; N]) -> Result<Vec<Option<Value>>> {
    list.iter().map(|t| t.value().cloned().map(Some)).collect()
}
/// Gradients for each input, `None` where there is none.
pub fn maybe_grads(list: Vec<Option<Tensor>>) -> Result<Vec<Option<Value>>> {
    list.iter().map(|t| t.as_ref().map(|t| t.value().cloned()).transpose()).collect()
}
/// Sums a gradient over the axes along which an input was broadcast.
pub fn unbroadcast(g: Tensor, to: &Shape) -> Tensor {
    g.then(|t| {
        if t.shape == *to {
            return Ok(g.clone());
        }
        let lead = t.shape.rank() - to.rank();
        let axes: Vec<usize> =
            (0..t.shape.rank()).filter(|&i| i < lead || (to[i - lead] == 1 && t.shape[i] != 1)).collect();
        Ok(g.sum_keep(axes).reshape(to))
    })
}
/// The gradient rule of an elementwise op of one input.
pub fn unary_grad(c: &GradCall, f: impl FnOnce(Tensor, Tensor, Tensor) -> Tensor) -> Result<Vec<Option<Value>>> {
    grads([f(c.x(0), c.y(0), c.g(0))])
}
/// The gradient rule of an elementwise op of two inputs: `f(a, b, y, g)` gives both gradients in
/// the result's shape.
pub fn binary_grad(
    c: &GradCall,
    f: impl FnOnce(Tensor, Tensor, Tensor, Tensor) -> (Tensor, Tensor),
) -> Result<Vec<Option<Value>>> {
    let (ga, gb) = f(c.x(0), c.x(1), c.y(0), c.g(0));
    grads([unbroadcast(ga, &c.inputs[0].ty().shape), unbroadcast(gb, &c.inputs[1].ty().shape)])
}

/// What two values get of the gradient: all of it where only one of them wins, else half. It is chosen, not multiplied:
/// an infinite gradient leaves 0 to the one that gets nothing.
pub fn halved(first: &Tensor, second: &Tensor, g: &Tensor) -> (Tensor, Tensor) {
    let (zero, half) = (g.zeros_like(), g * 0.5);
    let part = |wins: &Tensor, loses: &Tensor| {
        let apart = Tensor::where_(wins, g, &zero);
        Tensor::where_(&wins.eq(loses), &half, apart)
    };
    (part(first, second), part(second, first))
}

/// Evenly mixed sample values in an interval, the same every time.
pub fn sample(dtype: DType, shape: impl Into<Shape>, seed: u64, (lo, hi): (f64, f64)) -> Literal {
    let shape = shape.into();
    let data: Vec<f64> = (0..shape.count() as u64)
        .map(|i| {
            let mut z =
                (seed << 32).wrapping_add(i).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            lo + (hi - lo) * ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        })
        .collect();
    Literal::from_f64(dtype, shape, &data)
}
/// f64 samples in (-2, 2).
pub fn floats(shape: impl Into<Shape>, seed: u64) -> Literal {
    sample(DType::F64, shape, seed, (-2.0, 2.0))
}
/// An f64 literal.
pub fn f64s(shape: impl Into<Shape>, data: &[f64]) -> Literal {
    Literal::from_f64(DType::F64, shape, data)
}
/// An i64 literal.
pub fn i64s(shape: impl Into<Shape>, data: &[i64]) -> Literal {
    Literal::from_i64(DType::I64, shape, data)
}

/// Samples of an elementwise op: same shapes, broadcasting shapes, and a worked example.
pub fn scalar_cases(
    arity: usize,
    domain: (f64, f64),
    example: (&[&[f64]], &[f64]),
    bool_out: bool,
    source: &'static str,
) -> Vec<Case> {
    let shapes: [&[usize]; 3] = [&[2, 3], &[3], &[]];
    let attrs = ir::Attrs::new;
    let mut out =
        vec![Case::new((0..arity).map(|i| sample(DType::F64, [2, 3], i as u64 + 1, domain)).collect(), attrs())];
    if arity > 1 {
        out.push(Case::new(
            (0..arity).map(|i| sample(DType::F64, shapes[i % 3], i as u64 + 7, domain)).collect(),
            attrs(),
        ));
    }
    let n = example.1.len();
    let inputs = example.0.iter().map(|x| f64s([n], x)).collect();
    let expect = if bool_out { Literal::generate([n], |i| example.1[i] != 0.0) } else { f64s([n], example.1) };
    out.push(Case::new(inputs, attrs()).expect(vec![expect], source).kinked());
    out
}

/// An optional part of a row.
#[macro_export]
#[doc(hidden)]
macro_rules! option {
    () => {
        None
    };
    ($x:expr) => {
        Some($x)
    };
}
/// What a row does with complex inputs: a rule on pairs of real tensors.
macro_rules! on_complex {
    ($f:expr) => {
        ir::OnComplex::Rule(|c| $crate::pairs::written(c, $f))
    };
}

/// Writes the row of an elementwise op: what [`unary!`] and [`binary!`] have in common.
#[macro_export]
#[doc(hidden)]
macro_rules! scalar_row {
    (
        [$($doc:literal)*] $name:ident $arity:literal ($($x:ident: $i:literal),*) -> $out:ident;
        float: $float:expr;
        $(int: $int:expr;)?
        code: $code:literal;
        $(neutral: $neutral:expr;)?
        $(domain: $domain:expr;)?
        $(cost: $cost:ident;)?
        $(autocast: $autocast:ident;)?
        $(linear: $linear:literal;)?
        $(linear_in: $linear_in:expr;)?
        $(complex: $complex:expr;)?
        grad: $grad:expr;
        example: $($e:expr),* => $eout:expr, $source:literal;
    ) => {
        #[doc = concat!("The row of `", stringify!($name), "`.")]
        pub static OP: ir::Op = ir::Op {
            name: stringify!($name),
            doc: concat!($($doc),*),
            infer: |c| ir::Scalar::infer(c, $arity, ir::Out::$out, SCALAR.int.is_some()),
            meaning: ir::Meaning::Scalar(SCALAR),
            grad: $grad,
            $(autocast: ir::Autocast::$autocast,)?
            $(linear: $linear,)?
            $(linear_in: $linear_in,)?
            $(complex: $complex,)?
            cases: || {
                let is_bool = matches!(SCALAR.out, ir::Out::Bool);
                $crate::rules::scalar_cases($arity, SCALAR.domain, (&[$(&$e),*], &$eout), is_bool, $source)
            },
            ..ir::Op::DEFAULT
        };
        const INT: Option<fn($($crate::scalar_row!(@int $x)),*) -> i128> = $crate::option!($($int)?);
        #[allow(clippy::needless_update, reason = "a row may state every field")]
        const SCALAR: ir::Scalar = ir::Scalar {
            arity: $arity,
            out: ir::Out::$out,
            float: |v| {
                let f: fn($($crate::scalar_row!(@float $x)),*) -> f64 = $float;
                f($(v[$i]),*)
            },
            int: match INT {
                Some(_) => Some(|v| (INT.unwrap())($(v[$i]),*)),
                None => None,
            },
            code: $code,
            $(neutral: $neutral,)?
            $(domain: $domain,)?
            $(cost: ir::Cost::$cost,)?
            ..ir::Scalar::DEFAULT
        };
    };
    (@int $x:ident) => { i128 };
    (@float $x:ident) => { f64 };
}

/// Writes the row and the method of an elementwise op of one input.
///
/// After `float` may follow `int`, the value for integers; after `code`, in this order, `neutral`, `domain`, `cost`,
/// `autocast`, `linear`, `linear_in` and `complex`, where they differ from [`ir::Scalar::DEFAULT`] and [`ir::Op::DEFAULT`].
#[macro_export]
macro_rules! unary {
    ($(#[doc = $doc:literal])* $name:ident($x:ident) -> $out:ident; $($rest:tt)*) => {
        $crate::scalar_row! { [$($doc)*] $name 1 ($x: 0) -> $out; $($rest)* }
        impl $crate::Tensor {
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self) -> $crate::Tensor {
                $crate::Tensor::apply1(&OP, &[self], ir::Attrs::new())
            }
        }
    };
}

/// Writes the row and the method of an elementwise op of two inputs, which are promoted. The parts are those of
/// `unary!`.
#[macro_export]
macro_rules! binary {
    ($(#[doc = $doc:literal])* $name:ident($a:ident, $b:ident) -> $out:ident; $($rest:tt)*) => {
        $crate::scalar_row! { [$($doc)*] $name 2 ($a: 0, $b: 1) -> $out; $($rest)* }
        impl $crate::Tensor {
            $(#[doc = $doc])*
            #[track_caller]
            #[allow(clippy::should_implement_trait)]
            pub fn $name(&self, other: impl $crate::Operand) -> $crate::Tensor {
                self.binary(&OP, other)
            }
        }
    };
}

/// Declares the modules of a part of the table, one op each, and lists their rows.
#[macro_export]
macro_rules! table {
    ($($name:ident),* $(,)?) => {
        $( pub mod $name; )*
        /// The rows of this part of the table.
        pub static ROWS: &[&ir::Op] = &[$( &$name::OP ),*];
    };
}

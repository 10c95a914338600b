//! Tensors as text: `Display` follows PyTorch's format, `Debug` is one line and computes nothing.

use crate::Tensor;
use ir::{DType, Literal, Shape, Source, Value};
use std::fmt;

/// Tensors with more elements are summarized.
const THRESHOLD: usize = 1000;
/// Elements shown at each end of a summarized axis.
const EDGE: usize = 3;
/// Characters a line may have.
const WIDTH: usize = 80;

/// `tensor([[1., 2.],\n        [3., 4.]])`: four digits, scientific where the numbers differ by
/// more than a factor of 1000, aligned, summarized beyond 1000 elements. The type is added unless
/// it is f32, i64, c64 or bool. The value is computed; an error is shown as `tensor(error: ...)`.
///
/// ```
/// # use talweg_ops::Tensor;
/// let x = Tensor::from([[1.0f64, 2.5], [3.0, 4.0]]);
/// assert_eq!(x.to_string(), "tensor([[1.0000, 2.5000],\n        [3.0000, 4.0000]], dtype=f64)");
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.literal() {
            Ok(l) => f.write_str(&text(&l)),
            Err(e) => write!(f, "tensor(error: {e})"),
        }
    }
}

/// Type, and the first and last elements if they are computed; never computes and never fails.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = match self.value() {
            Ok(v) => v,
            Err(e) => return write!(f, "Tensor(error: {e})"),
        };
        match v.buffer().map(|b| b.read()) {
            Some(Ok(l)) => write!(f, "Tensor({} {})", v.ty(), brief(&l)),
            Some(Err(e)) => write!(f, "Tensor({} unreadable: {e})", v.ty()),
            None => write!(f, "Tensor({} {})", v.ty(), pending(v)),
        }
    }
}

/// What a value that is not computed is.
fn pending(v: &Value) -> String {
    match v.node().source() {
        Source::Apply(op) => format!("pending {}", op.name),
        Source::Data => "data".into(),
        Source::Placeholder(name) => format!("placeholder {name}"),
        Source::Read(var) => format!("variable {}", var.name()),
        Source::Key => "random key".into(),
    }
}

/// The elements in row-major order on one line, the middle ones left out.
fn brief(l: &Literal) -> String {
    let show = |i: usize| {
        if l.dtype().is_complex() {
            let z = l.to_complex()[i];
            format!("{:?}{:+?}j", z.re, z.im)
        } else if l.dtype().is_float() {
            format!("{:?}", l.to_f64()[i])
        } else {
            integer(l.dtype(), l.to_ints()[i])
        }
    };
    let n = l.count();
    let parts: Vec<String> = if n <= 4 * EDGE {
        (0..n).map(show).collect()
    } else {
        (0..EDGE).map(show).chain(["...".to_string()]).chain((n - EDGE..n).map(show)).collect()
    };
    format!("[{}]", parts.join(", "))
}

fn integer(dtype: DType, x: i128) -> String {
    if dtype == DType::Bool { if x != 0 { "True" } else { "False" }.to_string() } else { x.to_string() }
}

/// How all elements of a tensor are written: found from those that will be shown.
#[derive(Clone, Copy)]
struct Form {
    dtype: DType,
    whole: bool,
    scientific: bool,
    width: usize,
}

impl Form {
    fn new(dtype: DType, floats: &[f64], ints: &[i128]) -> Form {
        let mut form = Form { dtype, whole: true, scientific: false, width: 1 };
        if !dtype.is_float() {
            form.width = ints.iter().map(|&x| integer(dtype, x).len()).max().unwrap_or(1);
            return form;
        }
        let seen: Vec<f64> = floats.iter().copied().filter(|x| x.is_finite() && *x != 0.0).collect();
        if seen.is_empty() {
            return form;
        }
        let least = seen.iter().fold(f64::INFINITY, |m, x| m.min(x.abs()));
        let most = seen.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        form.whole = seen.iter().all(|x| *x == x.ceil());
        form.scientific = most / least > 1000.0 || most > 1e8 || least < 1e-4;
        form.width = seen.iter().map(|&x| form.bare(x).len()).max().unwrap_or(1);
        form
    }
    /// A float without alignment.
    fn bare(&self, x: f64) -> String {
        if !x.is_finite() {
            return if x.is_nan() {
                "nan"
            } else if x > 0.0 {
                "inf"
            } else {
                "-inf"
            }
            .into();
        }
        match (self.scientific, self.whole) {
            (true, _) => exponential(x),
            (false, true) => format!("{x:.0}."),
            (false, false) => format!("{x:.4}"),
        }
    }
    fn float(&self, x: f64) -> String {
        format!("{:>1$}", self.bare(x), self.width)
    }
    fn int(&self, x: i128) -> String {
        format!("{:>1$}", integer(self.dtype, x), self.width)
    }
}

/// C's `%.4e`: the exponent has a sign and at least two digits.
fn exponential(x: f64) -> String {
    let s = format!("{x:.4e}");
    let (mantissa, exponent) = s.split_once('e').unwrap_or((&s, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |d| ('-', d));
    format!("{mantissa}e{sign}{digits:0>2}")
}

struct Printer<'a> {
    floats: &'a [f64],
    /// Imaginary parts and their form, of complex numbers.
    imaginary: Option<(&'a [f64], Form)>,
    ints: &'a [i128],
    summarize: bool,
    form: Form,
}

fn text(l: &Literal) -> String {
    let (float, is_complex) = (l.dtype().is_float() || l.dtype().is_complex(), l.dtype().is_complex());
    let (shape, default) = (l.shape(), matches!(l.dtype(), DType::F32 | DType::I64 | DType::Bool | DType::C64));
    let mut suffixes = Vec::new();
    let body = if l.count() == 0 {
        if shape.rank() != 1 {
            let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
            suffixes.push(format!("size=({})", sizes.join(", ")));
        }
        // No element shows whether it is an integer.
        if l.dtype() != DType::F32 {
            suffixes.push(format!("dtype={}", l.dtype()));
        }
        "[]".to_string()
    } else {
        if !default {
            suffixes.push(format!("dtype={}", l.dtype()));
        }
        let summarize = l.count() > THRESHOLD;
        let shown: Vec<usize> = (0..l.count()).filter(|&i| !summarize || is_shown(shape, i)).collect();
        let (floats, ints) = if float { (l.to_f64(), vec![]) } else { (vec![], l.to_ints()) };
        let pick_f: Vec<f64> = if float { shown.iter().map(|&i| floats[i]).collect() } else { vec![] };
        let pick_i: Vec<i128> = if float { vec![] } else { shown.iter().map(|&i| ints[i]).collect() };
        let form = Form::new(l.dtype().part(), &pick_f, &pick_i);
        let ims: Vec<f64> = if is_complex { l.to_complex().iter().map(|z| z.im).collect() } else { vec![] };
        let imaginary = is_complex.then(|| {
            let pick: Vec<f64> = shown.iter().map(|&i| ims[i]).collect();
            (&ims[..], Form::new(l.dtype().part(), &pick, &[]))
        });
        Printer { floats: &floats, imaginary, ints: &ints, summarize, form }.tensor(shape, 0, "tensor(".len())
    };
    with_suffixes(format!("tensor({body}"), &suffixes)
}

/// True if the element lies within the edges of every axis.
fn is_shown(shape: &Shape, flat: usize) -> bool {
    let mut rest = flat;
    shape.iter().rev().all(|&d| {
        let i = rest % d;
        rest /= d;
        d <= 2 * EDGE || i < EDGE || i >= d - EDGE
    })
}

/// The suffixes after the text, each on a new line where the last line would become too long.
fn with_suffixes(mut out: String, suffixes: &[String]) -> String {
    let indent = "tensor(".len();
    let mut last = out.len() - out.rfind('\n').map_or(0, |i| i + 1) + 2;
    for s in suffixes {
        if last + s.len() + 2 > WIDTH {
            out.push_str(&format!(",\n{}{s}", " ".repeat(indent)));
            last = indent + s.len();
        } else {
            out.push_str(&format!(", {s}"));
            last += s.len() + 2;
        }
    }
    out.push(')');
    out
}

impl Printer<'_> {
    fn element(&self, i: usize) -> String {
        if let Some((ims, form)) = &self.imaginary {
            let im = form.float(ims[i]);
            let im = im.trim_start();
            let plus = if im.starts_with('-') { "" } else { "+" };
            return format!("{}{plus}{im}j", self.form.float(self.floats[i]));
        }
        if self.form.dtype.is_float() { self.form.float(self.floats[i]) } else { self.form.int(self.ints[i]) }
    }
    /// Which indices of an axis are shown; `None` stands for those left out.
    fn places(&self, size: usize) -> Vec<Option<usize>> {
        if self.summarize && size > 2 * EDGE {
            (0..EDGE).map(Some).chain([None]).chain((size - EDGE..size).map(Some)).collect()
        } else {
            (0..size).map(Some).collect()
        }
    }
    /// The part of the tensor with sizes `dims` whose elements start at `at`.
    fn tensor(&self, dims: &[usize], at: usize, indent: usize) -> String {
        let Some((&size, inner)) = dims.split_first() else { return self.element(at) };
        if inner.is_empty() {
            return self.vector(size, at, indent);
        }
        let step: usize = inner.iter().product();
        let slices: Vec<String> = self
            .places(size)
            .into_iter()
            .map(|i| i.map_or("...".to_string(), |i| self.tensor(inner, at + i * step, indent + 1)))
            .collect();
        let between = format!(",{}{}", "\n".repeat(inner.len()), " ".repeat(indent + 1));
        format!("[{}]", slices.join(&between))
    }
    fn vector(&self, size: usize, at: usize, indent: usize) -> String {
        let width = self.form.width + 2 + self.imaginary.as_ref().map_or(0, |(_, f)| f.width + 1);
        let per_line = (WIDTH.saturating_sub(indent) / width).max(1);
        let shown: Vec<String> =
            self.places(size).into_iter().map(|i| i.map_or(" ...".to_string(), |i| self.element(at + i))).collect();
        let lines: Vec<String> = shown.chunks(per_line).map(|line| line.join(", ")).collect();
        format!("[{}]", lines.join(&format!(",\n{}", " ".repeat(indent + 1))))
    }
}

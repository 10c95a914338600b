//! How a Rust parameter is spelled, converted and typed in Python.

use super::read::{Field, Method, Table};

/// One parameter of a Python method.
#[derive(Clone)]
pub struct Param {
    /// Its name in Python.
    pub name: String,
    /// The Rust type that is extracted from the Python object.
    pub rust: String,
    /// Its type in the stubs.
    pub stub: String,
    /// Its default as Rust and as Python, if it has one.
    pub default: Option<(String, String)>,
    /// The expression given to the Rust method; empty for a field of an option struct.
    pub pass: String,
    /// The field of the option struct it sets.
    pub field: Option<(String, String)>,
    /// True for a dimension, in the place of which NumPy's `axis` is accepted.
    pub is_axis: bool,
}

/// What a method is in Python.
pub struct Python<'a> {
    /// What it is in Rust.
    pub method: &'a Method,
    /// Its name in Python.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The option struct it takes, if it does.
    pub options: Option<String>,
    /// True if a variant exists that keeps reduced axes.
    pub keeps: bool,
    /// True if it has results that are several tensors.
    pub stub_result: &'static str,
}

/// Methods that are bound by hand or mean nothing in Python.
const BY_HAND: &[&str] = &[
    "apply",
    "apply1",
    "backward",
    "batch_norm_train",
    "cast",
    "count",
    "dequantize",
    "detach",
    "device",
    "dims",
    "dtype",
    "error",
    "eval",
    "eval_all",
    "expand",
    "expert_matmul",
    "expert_matmul_interleaved",
    "eye",
    "eye_of",
    "full_of",
    "grad",
    "i",
    "index",
    "index_put",
    "index_put_add",
    "interpolate",
    "imag",
    "iota",
    "linspace",
    "linspace_of",
    "literal",
    "ones",
    "ones_of",
    "pad",
    "pad_raw",
    "paged_attention",
    "paged_write",
    "permute",
    "quantized_embedding",
    "quantized_matmul",
    "quantized_matmul_interleaved",
    "rand",
    "rand_of",
    "randint",
    "randn",
    "randn_of",
    "randperm",
    "random_integers",
    "rank",
    "real",
    "repeat",
    "requires_grad",
    "reshape",
    "shape",
    "slice_raw",
    "t",
    "then",
    "to",
    "uniform",
    "unique",
    "value",
    "view",
    "zero_grad",
    "zeros",
    "zeros_of",
];

/// Python names of methods whose Rust name is a word of Python or says too little there.
const RENAMED: &[(&str, &str)] = &[
    ("and", "bitwise_and"),
    ("not", "bitwise_not"),
    ("or", "bitwise_or"),
    ("shl", "bitwise_left_shift"),
    ("shr", "bitwise_right_shift"),
    ("where_", "where"),
    ("xor", "bitwise_xor"),
];

/// Defaults that Rust's signatures cannot state: method (or `*`), parameter, value in Python.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("*", "reduction", "\"mean\""),
    ("*", "ord", "2.0"),
    ("*", "correction", "0.0"),
    ("cov", "correction", "1.0"),
    ("*", "offset", "0"),
    ("*", "dim1", "0"),
    ("*", "dim2", "1"),
    ("*", "k", "0"),
    ("*", "beta", "1.0"),
    ("*", "alpha", "1.0"),
    ("*", "n", "1"),
    ("addcdiv", "value", "1.0"),
    ("addcmul", "value", "1.0"),
    ("bincount", "size_min", "0"),
    ("binary_cross_entropy", "weight", "None"),
    ("cdist", "p", "2.0"),
    ("chunk", "dim", "0"),
    ("concat", "dim", "0"),
    ("cosine_embedding_loss", "margin", "0.0"),
    ("cosine_similarity", "dim", "1"),
    ("cosine_similarity", "eps", "1e-8"),
    ("diag_embed", "dim1", "-2"),
    ("diag_embed", "dim2", "-1"),
    ("*", "eps", "1e-5"),
    ("flatten", "start", "0"),
    ("flatten", "end", "-1"),
    ("gaussian_nll_loss", "eps", "1e-6"),
    ("hardshrink", "lambd", "0.5"),
    ("hardtanh", "lo", "-1.0"),
    ("hardtanh", "hi", "1.0"),
    ("hinge_embedding_loss", "margin", "1.0"),
    ("huber_loss", "delta", "1.0"),
    ("kl_div", "log_target", "False"),
    ("leaky_relu", "slope", "0.01"),
    ("local_response_norm", "alpha", "1e-4"),
    ("local_response_norm", "beta", "0.75"),
    ("local_response_norm", "k", "1.0"),
    ("margin_ranking_loss", "margin", "0.0"),
    ("nan_to_num", "nan", "0.0"),
    ("nan_to_num", "posinf", "1.7976931348623157e308"),
    ("nan_to_num", "neginf", "-1.7976931348623157e308"),
    ("normalize", "dim", "1"),
    ("normalize", "eps", "1e-12"),
    ("one_hot", "dtype", "\"float32\""),
    ("pairwise_distance", "eps", "1e-6"),
    ("pairwise_distance", "p", "2.0"),
    ("rms_norm", "eps", "1e-6"),
    ("rot90", "axes", "(0, 1)"),
    ("rot90", "k", "1"),
    ("scaled_matmul", "dtype", "\"bfloat16\""),
    ("scatter_reduce", "include_self", "True"),
    ("softplus", "threshold", "20.0"),
    ("softshrink", "lambd", "0.5"),
    ("split", "dim", "0"),
    ("split_sizes", "dim", "0"),
    ("squeeze", "dim", "None"),
    ("stack", "dim", "0"),
    ("take", "dim", "0"),
    ("unbind", "dim", "0"),
];

/// What a Rust type is in Python: extracted type, stub type, and how it is passed on.
fn converted(ty: &str, name: &str) -> Option<(String, &'static str, String)> {
    let n = name;
    let (rust, stub, pass) = match ty {
        "&Tensor" => ("Like".to_string(), "TensorLike", format!("&{n}.0")),
        "Option<&Tensor>" => ("Option<Like>".into(), "TensorLike | None", format!("{n}.as_ref().map(|t| &t.0)")),
        "implOperand" => ("Other".into(), "TensorLike", n.to_string()),
        "implInto<Axes>" => ("Option<AxesArg>".into(), "Axis", format!("{n}.map_or(Axes::All, |a| a.0)")),
        "implInto<Shape>" => ("ShapeArg".into(), "ShapeLike", format!("{n}.0")),
        "implInto<PerAxis>" => ("PerAxisArg".into(), "ShapeLike", format!("{n}.0")),
        "&[i64]" => ("Ints".into(), "ShapeLike", format!("&{n}.0")),
        "&[usize]" => ("Sizes".into(), "ShapeLike", format!("&{n}.0")),
        "[i64;2]" => ("[i64; 2]".into(), "tuple[int, int]", n.to_string()),
        "&[Tensor]" => ("Likes".into(), "Sequence[TensorLike]", format!("&{n}.0")),
        "&[&Tensor]" => ("Likes".into(), "Sequence[TensorLike]", format!("&{n}.0.iter().collect::<Vec<_>>()")),
        "i64" => ("i64".into(), "int", n.to_string()),
        "usize" => ("Count".into(), "int", format!("{n}.0")),
        "u32" => ("u32".into(), "int", n.to_string()),
        "f64" => ("f64".into(), "float", n.to_string()),
        "bool" => ("bool".into(), "bool", n.to_string()),
        "&str" => ("&str".into(), "str", n.to_string()),
        "String" => ("String".into(), "str", n.to_string()),
        "DType" => ("DTypeArg".into(), "DTypeLike", format!("{n}.0")),
        "Reduction" | "FftNorm" | "Interpolation" | "Combine" | "Triangle" => {
            (format!("Word<{ty}>"), "str", format!("{n}.0"))
        }
        "MatrixNorm" => (format!("Word<{ty}>"), "str | float", format!("{n}.0")),
        "Option<(f64,Tensor)>" => ("(f64, Like)".into(), "tuple[float, TensorLike]", format!("Some(({n}.0, {n}.1.0))")),
        "Option<Tensor>" => ("Like".into(), "TensorLike", format!("Some({n}.0)")),
        "Option<PerAxis>" => ("PerAxisArg".into(), "ShapeLike", format!("Some({n}.0)")),
        "PerAxis" => ("PerAxisArg".into(), "ShapeLike", format!("{n}.0")),
        "Padding" => ("PaddingArg".into(), "ShapeLike | str", format!("{n}.0")),
        "Option<f64>" => ("f64".into(), "float", format!("Some({n})")),
        "Option<i64>" => ("i64".into(), "int", format!("Some({n})")),
        "Option<usize>" => ("Count".into(), "int", format!("Some({n}.0)")),
        _ => return None,
    };
    Some((rust, stub, pass))
}

/// The Python spelling of a parameter.
fn spelled(name: &str) -> (&str, bool) {
    match name {
        "along" | "axis_" | "at" => ("dim", true),
        "axis1" => ("dim1", false),
        "axis2" => ("dim2", false),
        "lambda" => ("lambd", false),
        // NumPy's names, and `from` is a word of Python.
        "from" => ("source", false),
        "to" => ("destination", false),
        n => (n, false),
    }
}

fn default(method: &str, param: &str, ty: &str) -> Option<(String, String)> {
    let stated = DEFAULTS
        .iter()
        .find(|d| d.0 == method && d.1 == param)
        .or_else(|| DEFAULTS.iter().find(|d| d.0 == "*" && d.1 == param));
    let python = match (stated, ty) {
        (Some(d), _) => d.2,
        (None, "Option<&Tensor>" | "implInto<Axes>") => "None",
        (None, "i64") if param == "dim" => "-1",
        _ => return None,
    };
    let rust = match (python, ty) {
        ("None", _) => "None".to_string(),
        ("True", _) => "true".to_string(),
        ("False", _) => "false".to_string(),
        ("\"float32\"", _) => "DTypeArg(DType::F32)".to_string(),
        ("\"bfloat16\"", _) => "DTypeArg(DType::BF16)".to_string(),
        ("(0, 1)", _) => "[0, 1]".to_string(),
        (p, "Reduction") => format!("Word(Reduction::parse({p}).expect(\"a known word\"))"),
        (p, "implInto<Axes>") => format!("Some(AxesArg(Axes::from({p}i64)))"),
        (p, "usize") => format!("Count({p})"),
        (p, _) => p.to_string(),
    };
    Some((rust, python.to_string()))
}

/// A parameter of the Rust method.
fn param(method: &Method, name: &str, ty: &str) -> Option<Param> {
    let (python, is_axis) = spelled(name);
    let is_axes = ty == "implInto<Axes>";
    let python = if is_axes { "dim" } else { python };
    let (rust, stub, pass) = converted(ty, python)?;
    let default = default(&method.name, python, ty);
    let is_axis = is_axes || (is_axis && ty == "i64");
    Some(Param { name: python.into(), rust, stub: stub.into(), default, pass, field: None, is_axis })
}

/// A field of an option struct as a parameter with the struct's own default, which Python shows. `None` is taken for
/// it, too.
fn field(Field { name, ty, default }: &Field) -> Option<Param> {
    let (rust, stub, pass) = converted(ty, name)?;
    let shown = default.clone().unwrap_or_else(|| "None".to_string());
    let stub = if default.is_some() { stub.to_string() } else { format!("{stub} | None") };
    Some(Param {
        name: name.into(),
        rust: format!("Option<{rust}>"),
        stub,
        default: Some(("None".to_string(), shown)),
        pass: String::new(),
        field: Some((name.into(), pass)),
        is_axis: false,
    })
}

fn stub_result(ty: &str) -> Option<&'static str> {
    Some(match ty {
        "Tensor" => "Tensor",
        "[Tensor;2]" => "tuple[Tensor, Tensor]",
        "[Tensor;3]" => "tuple[Tensor, Tensor, Tensor]",
        "Vec<Tensor>" => "tuple[Tensor, ...]",
        _ => return None,
    })
}

fn in_python<'a>(method: &'a Method, table: &Table) -> Option<Python<'a>> {
    let stub_result = stub_result(&method.result)?;
    let renamed = RENAMED.iter().find(|r| r.0 == method.name).map(|r| r.1);
    let name = renamed.or(full_of(&method.name, table)).unwrap_or(&method.name);
    let mut params = Vec::new();
    let mut options = None;
    for (n, ty) in &method.params {
        match table.options.get(ty) {
            Some(fields) => {
                options = Some(ty.clone());
                // A field without a Python spelling keeps its default.
                params.extend(fields.iter().filter_map(field));
            }
            None => params.push(param(method, n, ty)?),
        }
    }
    // A default may only stand where all that follow have one.
    for i in 0..params.len() {
        if params[i..].iter().any(|p| p.default.is_none()) {
            params[i].default = None;
        }
    }
    let keeps = table.methods.contains_key(&format!("{}_keep", method.name));
    Some(Python { method, name: name.to_string(), params, options, keeps, stub_result })
}

/// The method that this one is with its options: Python has one, with both's arguments.
fn full_of<'a>(name: &'a str, table: &Table) -> Option<&'a str> {
    name.strip_suffix("_with").filter(|n| table.methods.contains_key(*n))
}

fn is_inner(name: &str, table: &Table) -> bool {
    let is_variant = name.strip_suffix("_keep").is_some_and(|n| table.methods.contains_key(n))
        || table.methods.contains_key(&format!("{name}_with"));
    is_variant || name.ends_with("_grad") || BY_HAND.contains(&name)
}

/// Every method that Python gets from the table, in order of names.
pub fn bound(table: &Table) -> Vec<Python<'_>> {
    table.methods.values().filter(|m| !is_inner(&m.name, table)).filter_map(|m| in_python(m, table)).collect()
}

/// Methods whose parameters or results have no spelling in Python yet, with their types.
pub fn unbound(table: &Table) -> Vec<String> {
    let missing = table.methods.values().filter(|m| !is_inner(&m.name, table) && in_python(m, table).is_none());
    missing.map(|m| format!("{}({:?}) -> {}", m.name, m.params, m.result)).collect()
}

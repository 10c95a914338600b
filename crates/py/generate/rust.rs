//! The PyO3 code of the methods.

use super::params::{Param, Python, bound};
use super::read::Table;
use std::fmt::Write;

/// All methods, and the list of their names.
pub fn methods(table: &Table) -> String {
    let all = bound(table);
    let mut out = String::from("#[pymethods]\nimpl PyTensor {\n");
    for m in &all {
        method(m, &mut out);
    }
    out.push_str("}\n\n/// Names of the methods that came from the table.\npub const NAMES: &[&str] = &[\n");
    for m in &all {
        let _ = writeln!(out, "    {:?},", m.name);
    }
    out.push_str("];\n");
    out
}

/// Documentation as attributes, with the worked example.
pub fn docs(m: &Python) -> String {
    // Rust's links to other methods are their plain names here.
    let mut doc = m.method.doc.replace("[`Tensor::", "`").replace("`]", "`");
    if let Some(e) = &m.method.example {
        let _ = write!(doc, "\n\n{e}");
    }
    doc
}

/// What a method takes, three times over: for PyO3, for `help`, and in Rust.
#[derive(Default)]
struct Signature {
    pyo3: Vec<String>,
    shown: Vec<String>,
    rust: Vec<String>,
}

/// Reductions that convert to the type of `dtype=`, as PyTorch's.
pub const TYPED: &[&str] = &["sum", "mean", "prod", "nansum", "nanmean", "cumsum", "cumprod"];

/// Methods that only arrange elements: in PyTorch their results are views even where nothing changes.
const ARRANGED: [&str; 4] = ["broadcast_to", "flatten", "squeeze", "unflatten"];

/// Methods whose operands must have one element type, as in PyTorch.
const ONE_TYPE: [&str; 20] = [
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bilinear",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dot",
    "einsum",
    "inner",
    "linear",
    "matmul",
    "mm",
    "mv",
    "tensordot",
];

/// The element type of a parameter that is a tensor, as an option.
fn element_type(p: &Param) -> Option<String> {
    let n = &p.name;
    match p.rust.as_str() {
        "Like" => Some(format!("{n}.0.dtype().ok()")),
        "Option<Like>" => Some(format!("{n}.as_ref().and_then(|t| t.0.dtype().ok())")),
        "Other" => Some(format!("match &{n} {{ Other::Tensor(t) => t.dtype().ok(), _ => None }}")),
        _ => None,
    }
}

/// What a method refuses that the engine would compute (`crate::strict`).
fn refusal(m: &Python, out: &mut String) {
    let name = m.name.as_str();
    let _ = match name {
        "abs" | "neg" => writeln!(out, "        strict::unary({name:?}, self.dtype_now())?;"),
        "floor_divide" | "fmod" | "pow" | "rem" | "sub" => {
            let other = &m.params[0].name;
            writeln!(out, "        strict::operator({name:?}, || self.dtype_now(), &{other}, false)?;")
        }
        _ if ONE_TYPE.contains(&name) => {
            let own = m.method.on_self.then(|| "Some(self.dtype_now())".to_string());
            let types: Vec<String> = own.into_iter().chain(m.params.iter().filter_map(element_type)).collect();
            let types = match m.params.iter().find(|p| p.rust == "Likes") {
                Some(list) => format!("strict::types_of(&{}.0).collect::<Vec<_>>()", list.name),
                None => format!("[{}]", types.join(", ")),
            };
            let _ = writeln!(out, "        let types = {types};");
            writeln!(out, "        strict::same_type({name:?}, &types)?;")
        }
        _ => Ok(()),
    };
}

/// The parameters, with NumPy's `axis` and `keepdims` as other spellings that are not shown.
fn signature(m: &Python, axis: Option<&Param>) -> Signature {
    let mut s = Signature::default();
    for p in &m.params {
        match &p.default {
            Some((rust, python)) => {
                let is_none = p.is_axis && axis.is_some_and(|a| a.name == p.name);
                s.pyo3.push(if is_none { format!("{}=None", p.name) } else { format!("{}={rust}", p.name) });
                s.shown.push(format!("{}={python}", p.name));
            }
            None => {
                s.pyo3.push(p.name.clone());
                s.shown.push(p.name.clone());
            }
        }
        s.rust.push(declared(&p.name, &extracted(p)));
    }
    if m.keeps {
        s.pyo3.push("keepdim=false".into());
        s.shown.push("keepdim=False".into());
        s.rust.push(declared("keepdim", "bool"));
    }
    let is_typed = TYPED.contains(&m.name.as_str());
    if axis.is_some() || m.keeps {
        s.pyo3.push("*".into());
    }
    if let Some(p) = axis {
        s.pyo3.push("axis=None".into());
        s.rust.push(declared("axis", &extracted(p)));
    }
    if m.keeps {
        s.pyo3.push("keepdims=None".into());
        s.rust.push(declared("keepdims", "Option<bool>"));
    }
    if is_typed {
        s.pyo3.push("dtype=None".into());
        s.shown.extend(["*".into(), "dtype=None".into()]);
        s.rust.push(declared("dtype", "Option<DTypeArg>"));
    }
    if is_typed || m.keeps {
        // NumPy's functions pass it.
        s.pyo3.push("out=None".into());
        s.rust.push(declared("out", "Option<Py<PyTensor>>"));
    }
    s
}

fn method(m: &Python, out: &mut String) {
    // An axis without a default stands first or in the middle, and is given by place.
    let axis = m.params.iter().find(|p| p.is_axis && p.default.is_some());
    let s = signature(m, axis);
    for line in docs(m).lines() {
        let _ = writeln!(out, "    #[doc = {:?}]", format!(" {line}"));
    }
    let (me, receiver) = if m.method.on_self { ("$self, ", "&self, ") } else { ("", "") };
    let shown = format!("({me}{})", s.shown.join(", ")).replace(", )", ")");
    let name = if m.name == m.method.name { String::new() } else { format!("name = {:?}, ", m.name) };
    if !m.method.on_self {
        out.push_str("    #[staticmethod]\n");
    }
    let (given, rust) = ([&s.pyo3[..], &["**unknown".into()]].concat().join(", "), &m.method.name);
    let _ = writeln!(out, "    #[pyo3({name}signature = ({given}), text_signature = {shown:?})]");
    let params = [&s.rust[..], &["unknown: Option<&Bound<'_, PyDict>>".into()]].concat().join(", ");
    let _ = writeln!(out, "    fn r#{rust}({receiver}py: Python<'_>, {params}) -> PyResult<Py<PyAny>> {{");
    let takes = format!("({})", s.shown.join(", "));
    let _ = writeln!(out, "        known(py, {:?}, {takes:?}, unknown)?;", m.name);
    refusal(m, out);
    body(m, axis, out);
    out.push_str("    }\n");
}

/// The type a parameter is extracted as: an axis with a default may come as `dim`.
fn extracted(p: &Param) -> String {
    if p.is_axis && p.default.is_some() && !p.rust.starts_with("Option<") {
        return format!("Option<{}>", p.rust);
    }
    p.rust.clone()
}

/// A parameter in Rust; what PyO3 converts by itself raises our exceptions.
fn declared(name: &str, ty: &str) -> String {
    let plain = ["i64", "u32", "f64", "bool", "&str", "String", "[i64; 2]"];
    let is_plain = plain.contains(&ty.trim_start_matches("Option<").trim_end_matches('>'));
    let convert = if is_plain { "#[pyo3(from_py_with = arg)] " } else { "" };
    format!("{convert}{name}: {ty}")
}

fn body(m: &Python, dim: Option<&Param>, out: &mut String) {
    if let Some(p) = dim {
        let default = &p.default.as_ref().expect("an axis that may be left out").0;
        if p.rust.starts_with("Option<") {
            let _ = writeln!(out, "        let dim = either(axis, dim)?.or({default});");
        } else {
            let _ = writeln!(out, "        let dim = either(axis, dim)?.unwrap_or({default});");
        }
    }
    if m.keeps {
        out.push_str("        let keepdim = keepdims.unwrap_or(keepdim);\n");
    }
    let mut args = Vec::new();
    if let Some(name) = &m.options {
        let mutable = if m.params.iter().any(|p| p.field.is_some()) { "mut " } else { "" };
        let _ = writeln!(out, "        let {mutable}options = {name}::default();");
        for p in &m.params {
            if let Some((field, pass)) = &p.field {
                let _ = writeln!(out, "        if let Some({}) = {} {{ options.{field} = {pass}; }}", p.name, p.name);
            }
        }
    }
    for (_, ty) in &m.method.params {
        if m.options.as_ref() == Some(ty) {
            args.push("options".to_string());
        } else {
            let p = m.params.iter().filter(|p| p.field.is_none()).nth(args.len()).expect("one for each");
            args.push(p.pass.clone());
        }
    }
    let args = args.join(", ");
    let name = &m.method.name;
    let call = match (m.method.on_self, m.keeps) {
        (true, true) => format!("if keepdim {{ me.{name}_keep({args}) }} else {{ me.{name}({args}) }}"),
        (true, false) => format!("me.{name}({args})"),
        (false, _) => format!("Tensor::{name}({args})"),
    };
    let is_typed = TYPED.contains(&m.name.as_str());
    let call = if is_typed {
        out.push_str("        let dtype = dtype.map(|d| d.0);\n");
        let cast = "let cast; let me = match dtype { Some(d) => { cast = me.cast(d); &cast } None => me };";
        format!("{{ {cast} let y = {call}; dtype.map_or(y.clone(), |d| y.cast(d)) }}")
    } else {
        call
    };
    let _ = match m.method.on_self {
        true if is_typed || m.keeps => writeln!(out, "        stored(py, out, call_on(py, self, |me| {call}))"),
        true if ARRANGED.contains(&m.name.as_str()) => writeln!(out, "        arrange(py, self, |me| {call})"),
        true => writeln!(out, "        call_on(py, self, |me| {call})"),
        false => writeln!(out, "        call(py, || {call})"),
    };
}

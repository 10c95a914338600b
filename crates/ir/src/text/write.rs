//! Writing the text form.

use super::VERSION;
use crate::{Attr, CONST, DType, Element, FlatNode, Graph, INPUT, Literal, Site, Slot, Type, with_dtype};
use std::fmt::{self, Write};

impl fmt::Display for Graph {
    /// The text form; [`Graph::parse`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "talweg graph {VERSION}")?;
        body(f, self, 0)
    }
}

fn body(f: &mut dyn Write, g: &Graph, indent: usize) -> fmt::Result {
    for (i, n) in g.nodes.iter().enumerate() {
        write!(f, "{:indent$}%{i} = ", "")?;
        node(f, n, indent)?;
        if n.site != Site::UNKNOWN {
            f.write_str("  # ")?;
            site(f, n.site)?;
        }
        f.write_char('\n')?;
    }
    write!(f, "{:indent$}return", "")?;
    list(f, &g.outputs, " ", |f, &s| slot(f, s))?;
    f.write_char('\n')
}

fn node(f: &mut dyn Write, n: &FlatNode, indent: usize) -> fmt::Result {
    f.write_str(n.op.name)?;
    list(f, &n.inputs, " ", |f, &s| slot(f, s))?;
    // What an input or a constant is, its type already says but for one thing.
    match (n.attrs.get("name"), n.attrs.get("value")) {
        (Some(Attr::Str(name)), _) if n.op == &INPUT && is_plain_input(n) => {
            f.write_char(' ')?;
            quoted(f, name)?;
        }
        (_, Some(Attr::Literal(l))) if n.op == &CONST && is_plain_const(n, l) => {
            f.write_char(' ')?;
            elements(f, l)?;
        }
        _ => attrs(f, n, indent)?,
    }
    f.write_str(" : ")?;
    match n.outs.as_slice() {
        [one] => ty(f, one),
        many => {
            f.write_char('(')?;
            list(f, many, "", ty)?;
            f.write_char(')')
        }
    }
}

/// True if the short form says it all; a graph that breaks the rules is still shown as it is.
fn is_plain_input(n: &FlatNode) -> bool {
    let [t] = n.outs.as_slice() else { return false };
    let names: Vec<&str> = n.attrs.iter().map(|(n, _)| *n).collect();
    names == ["dtype", "shape", "name"]
        && n.attrs.get("dtype") == Some(&t.dtype.into())
        && n.attrs.get("shape") == Some(&(&t.shape).into())
}
fn is_plain_const(n: &FlatNode, l: &Literal) -> bool {
    n.attrs.iter().count() == 1 && n.outs.as_slice() == [Type::new(l.dtype(), l.shape().clone())]
}

fn attrs(f: &mut dyn Write, n: &FlatNode, indent: usize) -> fmt::Result {
    if n.attrs.iter().next().is_none() {
        return Ok(());
    }
    f.write_str(" {")?;
    let all: Vec<_> = n.attrs.iter().collect();
    list(f, &all, "", |f, (name, a)| {
        write!(f, "{name}: ")?;
        attr(f, a, indent)
    })?;
    f.write_char('}')
}

fn attr(f: &mut dyn Write, a: &Attr, indent: usize) -> fmt::Result {
    match a {
        Attr::Bool(x) => write!(f, "{x}"),
        Attr::Int(x) => write!(f, "{x}"),
        Attr::Float(x) => float(f, *x, x.to_bits(), f64::NAN.to_bits()),
        Attr::Str(x) => quoted(f, x),
        Attr::Ints(x) => write!(f, "{:?}", x.as_slice()),
        Attr::DType(x) => f.write_str(x.name()),
        Attr::Literal(l) => {
            ty(f, &Type::new(l.dtype(), l.shape().clone()))?;
            f.write_char(' ')?;
            elements(f, l)
        }
        Attr::Custom(c) => quoted(f, c.0.name()),
        Attr::Peers(p) => quoted(f, &format!("{p:?}")),
        Attr::Graph(g) => {
            f.write_str("graph {\n")?;
            body(f, g, indent + 2)?;
            write!(f, "{:indent$}}}", "")
        }
    }
}

fn elements(f: &mut dyn Write, l: &Literal) -> fmt::Result {
    // A complex number is written as its two parts.
    let l = &l.paired();
    f.write_char('[')?;
    with_dtype!(l.dtype(), T => {
        list(f, l.stored::<T>(), "", |f, &s| element(f, <T as Element>::load(s)))?;
    });
    f.write_char(']')
}

fn element<T: Element>(f: &mut dyn Write, x: T) -> fmt::Result {
    let bytes = bytemuck::bytes_of(&x.store()).iter().rev().fold(0u64, |a, &b| a << 8 | b as u64);
    match T::DTYPE {
        DType::Bool => write!(f, "{}", x.to_int() != 0),
        DType::F64 => float(f, x.to_f64(), bytes, f64::NAN.to_bits()),
        DType::F32 => float(f, x.to_f64() as f32, bytes, f32::NAN.to_bits() as u64),
        DType::F8E4M3 => float(f, x.to_f64() as f32, bytes, crate::f8e4m3::from_f32(f32::NAN).to_bits() as u64),
        DType::F8E5M2 => float(f, x.to_f64() as f32, bytes, crate::f8e5m2::from_f32(f32::NAN).to_bits() as u64),
        // Every half is a float, and the float's digits distinguish it.
        DType::F16 => float(f, x.to_f64() as f32, bytes, half::f16::NAN.to_bits() as u64),
        DType::BF16 => float(f, x.to_f64() as f32, bytes, half::bf16::NAN.to_bits() as u64),
        _ => write!(f, "{}", x.to_int()),
    }
}

fn float(f: &mut dyn Write, x: impl fmt::Debug + Into<f64> + Copy, bits: u64, usual: u64) -> fmt::Result {
    match x.into() {
        v if v.is_nan() && bits == usual => f.write_str("nan"),
        v if v.is_nan() => write!(f, "nan({bits:#x})"),
        _ => write!(f, "{x:?}"),
    }
}

fn ty(f: &mut dyn Write, t: &Type) -> fmt::Result {
    write!(f, "{t}")
}

fn slot(f: &mut dyn Write, s: Slot) -> fmt::Result {
    match s.out {
        0 => write!(f, "%{}", s.node),
        out => write!(f, "%{}.{out}", s.node),
    }
}

fn quoted(f: &mut dyn Write, s: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if c.is_control() => write!(f, "\\u{{{:x}}}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

fn site(f: &mut dyn Write, s: Site) -> fmt::Result {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ':' && c != '"';
    if !s.file.is_empty() && s.file.chars().all(is_plain) {
        f.write_str(s.file)?;
    } else {
        quoted(f, s.file)?;
    }
    write!(f, ":{}", s.line)?;
    if s.column != 0 { write!(f, ":{}", s.column) } else { Ok(()) }
}

/// Items with commas between them, and `lead` before the first.
fn list<T>(
    f: &mut dyn Write,
    items: &[T],
    lead: &str,
    mut one: impl FnMut(&mut dyn Write, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, x) in items.iter().enumerate() {
        f.write_str(if i == 0 { lead } else { ", " })?;
        one(f, x)?;
    }
    Ok(())
}

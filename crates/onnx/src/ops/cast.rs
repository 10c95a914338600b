//! Conversions between element types.

use super::{Outs, Row, moving, number, row};
use crate::element::Elem;
use crate::graph::Attribute;
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal, Result};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("Cast", 1, |c| {
        let to = match c.attribute("to") {
            Some(Attribute::Text(t)) => (1..=28).find(|&n| Elem(n as i32).name().eq_ignore_ascii_case(t)).unwrap_or(0),
            _ => c.int("to", 0),
        };
        cast(c, Elem::known(to)?)
    }),
    row("CastLike", 15, |c| {
        let to = match c.value(1) {
            Value::Strings(..) => Elem::STRING,
            _ => c.elem(1)?,
        };
        cast(c, to)
    }),
    row("BitCast", 26, bit_cast),
    moving("Identity", 1, |c| Ok(vec![c.value(0).clone()])),
];

fn cast(c: &Call<'_>, to: Elem) -> Outs {
    let saturate = c.int("saturate", 1) != 0;
    if let Value::Strings(shape, strings) = c.value(0) {
        if to == Elem::STRING {
            return Ok(vec![c.value(0).clone()]);
        }
        let parse = |s: &String| parsed(s).ok_or_else(|| Error::value(format!("{s:?} is not a number")));
        let numbers = strings.iter().map(parse).collect::<Result<Vec<f64>>>()?;
        let storage = to.storage().unwrap_or(DType::F32);
        return Ok(vec![Value::known(to, Literal::from_f64(storage, shape.clone(), &numbers))]);
    }
    if to == Elem::STRING {
        let l = c.host(0)?;
        return Ok(vec![Value::strings(l.shape().clone(), written(&l))]);
    }
    let item = c.item(0)?;
    if item.elem == to {
        return Ok(vec![c.value(0).clone()]);
    }
    if let Some(l) = &item.host
        && !to.is_small()
        && !item.elem.is_small()
        && l.count() <= 4096
    {
        return Ok(vec![l.cast(to.storage().unwrap_or(l.dtype())).into()]);
    }
    converted(c, &item.tensor, to, saturate, c.text("round_mode", "up"))
}

/// A tensor as another type.
pub fn converted(c: &Call<'_>, x: &Tensor, to: Elem, saturate: bool, mode: &str) -> Outs {
    let storage = to.storage().ok_or_else(|| Error::dtype("strings are not numbers"))?;
    if to.is_small_float() {
        // Rounded on the host, where every such format is.
        let l = c.read(x, "a value to be cast")?;
        let values = l.to_f64();
        let round = |v: f64| {
            if to == Elem::FLOAT8E8M0 { scale(v as f32, saturate, mode) } else { to.round(v as f32, saturate) }
        };
        let l = Literal::generate::<f32>(l.shape().clone(), |i| round(values[i]));
        return Ok(vec![Value::known(to, l)]);
    }
    if let Some((bits, is_signed)) = to.int_bits() {
        let (n, half) = (1i64 << bits, 1i64 << (bits - 1));
        let x = if x.dtype()?.is_float() { x.trunc() } else { x.clone() }.cast(DType::I64);
        let y = if is_signed { (x + half).and(number(DType::I64, (n - 1) as f64)) - half } else { x.and(n - 1) };
        return Ok(vec![Value::typed(y.cast(storage), to)]);
    }
    Ok(vec![Value::typed(x.cast(storage), to)])
}

/// A power of two near a number: scales have no sign, and round as the attribute says.
fn scale(x: f32, saturate: bool, mode: &str) -> f32 {
    let nearest = Elem::FLOAT8E8M0.round(x, saturate);
    if !x.is_finite() || x <= 0.0 || mode == "nearest" {
        return nearest;
    }
    let exponent = f64::from(x).log2();
    let exponent = if mode == "down" { exponent.floor() } else { exponent.ceil() };
    Elem::FLOAT8E8M0.round(exponent.clamp(-127.0, 128.0).exp2() as f32, saturate)
}

fn parsed(s: &str) -> Option<f64> {
    match s.trim().to_ascii_lowercase().as_str() {
        "inf" | "+inf" | "infinity" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        t => t.parse().ok(),
    }
}

/// Numbers as text, as NumPy writes them.
fn written(l: &Literal) -> Vec<String> {
    let float = |text: String, x: f64| match (x.is_nan(), x.is_infinite()) {
        (true, _) => "nan".into(),
        (_, true) => if x > 0.0 { "inf" } else { "-inf" }.into(),
        _ if text.contains(['.', 'e']) => text,
        _ => text + ".0",
    };
    match l.dtype() {
        DType::Bool => l.to_i64().iter().map(|&b| if b != 0 { "True" } else { "False" }.to_string()).collect(),
        DType::F64 => l.to_f64().iter().map(|&x| float(format!("{x}"), x)).collect(),
        d if d.is_float() => l.to_f64().iter().map(|&x| float(format!("{}", x as f32), x)).collect(),
        _ => l.to_ints().iter().map(|x| x.to_string()).collect(),
    }
}

fn bit_cast(c: &Call<'_>) -> Outs {
    let (from, to) = (c.elem(0)?, Elem::known(c.int("to", 0))?);
    let storage = to.storage().filter(|_| to.bits() == from.bits());
    let storage = storage
        .ok_or_else(|| Error::dtype(format!("{} and {} have different numbers of bits", from.name(), to.name())))?;
    let l = c.host(0)?;
    if from.is_small() || to.is_small() {
        let code = |x: f64| if from.is_small_float() { from.encode(x as f32, false) } else { x as i64 as u8 };
        let mask = ((1u16 << from.bits()) - 1) as u8;
        let codes: Vec<u8> = l.to_f64().iter().map(|&x| code(x) & mask).collect();
        let value = |code: u8| match to.int_bits() {
            Some((b, true)) => f64::from(((code << (8 - b)) as i8) >> (8 - b)),
            Some(_) => f64::from(code),
            None if to.is_small_float() => f64::from(to.decode(code)),
            None if to == Elem::INT8 => f64::from(code as i8),
            None => f64::from(code),
        };
        let values: Vec<f64> = codes.into_iter().map(value).collect();
        return Ok(vec![Value::known(to, Literal::from_f64(storage, l.shape().clone(), &values))]);
    }
    Ok(vec![Value::known(to, Literal::from_bytes(storage, l.shape().clone(), l.bytes())?)])
}

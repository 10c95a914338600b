//! The command line of a program that holds one model.

use crate::{Model, Port};
use ir::{DType, Element, Error, ErrorKind, Literal, Result, with_dtype};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::time::Instant;

const USAGE: &str = "\
usage: PROGRAM                         what it takes and returns
       PROGRAM NAME=FILE… [-o FILE]    runs once; FILE is .npy or raw bytes, - is the standard input
       PROGRAM --time RUNS             measures runs on zeros
Outputs are printed; -o writes their raw bytes, one output after the other.";

/// Runs the command of a program around this bundle; returns its exit status.
pub fn command(bundle: &'static [u8]) -> u8 {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(bundle, &args) {
        Ok(()) => 0,
        Err(e) => {
            // The terminal may be gone.
            let _ = writeln!(std::io::stderr(), "{e}");
            1
        }
    }
}

fn run(bundle: &'static [u8], args: &[String]) -> Result<()> {
    let began = Instant::now();
    let model = Model::new(bundle)?;
    let ready = began.elapsed();
    let refuse = |e: String| Err(Error::value(format!("{e}\n{USAGE}")));
    let (mut given, mut to, mut rest) = (Vec::new(), None, args.iter());
    while let Some(a) = rest.next() {
        match (a.as_str(), a.split_once('=')) {
            ("--time", _) => {
                let Some(runs) = rest.next().and_then(|n| n.parse().ok()) else {
                    return refuse("--time needs a number of runs".into());
                };
                return time(&model, ready.as_secs_f64(), runs);
            }
            ("-o", _) => match rest.next() {
                Some(path) => to = Some(path),
                None => return refuse("-o needs a file".into()),
            },
            (_, Some(pair)) => given.push(pair),
            _ => return refuse(format!("{a} is not NAME=FILE")),
        }
    }
    if given.is_empty() {
        return print(&describe(&model));
    }
    if let Some((name, _)) = given.iter().find(|(n, _)| !model.inputs().iter().any(|p| p.name == *n)) {
        return refuse(format!("there is no input {name}"));
    }
    let mut inputs = Vec::new();
    for port in model.inputs() {
        let Some((_, path)) = given.iter().find(|(n, _)| *n == port.name) else {
            return refuse(format!("the input {} is missing", port.name));
        };
        let bytes = read(path).map_err(|e| Error::new(ErrorKind::Io, format!("{path}: {e}")))?;
        let in_file = |e: Error| Error { message: format!("{path}: {}", e.message), ..e };
        inputs.push(read_input(port, bytes).map_err(in_file)?);
    }
    let outputs = outputs(&model, &inputs)?;
    if let Some(path) = to {
        return std::fs::write(path, outputs.concat()).map_err(|e| Error::new(ErrorKind::Io, format!("{path}: {e}")));
    }
    let mut text = String::new();
    for (port, bytes) in model.outputs().iter().zip(&outputs) {
        let _ = write!(text, "{} {} ", port.name, port.ty);
        nested(&mut text, port.ty.dtype, &port.ty.shape, bytes);
        text.push('\n');
    }
    print(&text)
}

fn outputs(model: &Model, inputs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut outputs: Vec<Vec<u8>> = model.outputs().iter().map(|p| vec![0; p.ty.bytes()]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    model.run(&inputs, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())?;
    Ok(outputs)
}

fn read(path: &str) -> std::io::Result<Vec<u8>> {
    if path != "-" {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::from)
}

fn describe(model: &Model) -> String {
    let mut text = format!("{}: {} bytes of working memory\n", model.name(), model.arena_bytes());
    for (what, ports) in [("input", model.inputs()), ("output", model.outputs())] {
        for p in ports {
            let _ = writeln!(text, "{what:7} {:16} {}", p.name, p.ty);
        }
    }
    text
}

fn time(model: &Model, ready_s: f64, runs: usize) -> Result<()> {
    let inputs: Vec<Vec<u8>> = model.inputs().iter().map(|p| vec![0; p.ty.bytes()]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<u8>> = model.outputs().iter().map(|p| vec![0; p.ty.bytes()]).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut least_s = f64::INFINITY;
    let mut first_s = None;
    for _ in 0..runs.max(1) {
        let began = Instant::now();
        model.run(&inputs, &mut outputs)?;
        let s = began.elapsed().as_secs_f64();
        first_s.get_or_insert(s);
        least_s = least_s.min(s);
    }
    let ms = |s: f64| s * 1e3;
    let first_s = first_s.unwrap_or_default();
    print(&format!("ready {:.3} ms, first run {:.3} ms, least {:.3} ms\n", ms(ready_s), ms(first_s), ms(least_s)))
}

/// An input's bytes from the content of a file: NumPy's npy, or raw bytes.
pub fn read_input(port: &Port, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    if bytes.starts_with(b"\x93NUMPY") {
        let header = npy_header(&bytes).ok_or_else(|| Error::format("the npy header is cut off"))?;
        let text = String::from_utf8_lossy(&bytes[header.clone()]).replace(' ', "");
        let shape: Vec<String> = port.ty.shape.iter().map(|d| d.to_string()).collect();
        let shape = format!("'shape':({}{})", shape.join(","), if shape.len() == 1 { "," } else { "" });
        let is_fit = text.contains(&shape)
            && text.contains("'fortran_order':False")
            && text.contains(&format!("'descr':'{}'", descr(port.ty.dtype)));
        if !is_fit {
            return Err(Error::shape(format!("{} takes {}, but the file has {}", port.name, port.ty, text.trim())));
        }
        bytes.drain(..header.end);
    }
    if bytes.len() != port.ty.bytes() {
        let e = format!("{} is {} of {} bytes, but the file has {}", port.name, port.ty, port.ty.bytes(), bytes.len());
        return Err(Error::shape(e));
    }
    Ok(bytes)
}

fn npy_header(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let (start, length) = match bytes.get(6)? {
        1 => (10, u16::from_le_bytes([*bytes.get(8)?, *bytes.get(9)?]) as usize),
        _ => (12, u32::from_le_bytes([*bytes.get(8)?, *bytes.get(9)?, *bytes.get(10)?, *bytes.get(11)?]) as usize),
    };
    let end = length.checked_add(start)?;
    (end <= bytes.len()).then_some(start..end)
}

/// NumPy's name of a type.
fn descr(d: DType) -> String {
    let kind = match d {
        DType::Bool => return "|b1".into(),
        _ if d.is_float() => 'f',
        _ if d.name().starts_with('u') => 'u',
        _ => 'i',
    };
    format!("{}{kind}{}", if d.size() == 1 { '|' } else { '<' }, d.size())
}

/// Values as nested lists.
pub fn nested(text: &mut String, dtype: DType, shape: &[usize], bytes: &[u8]) {
    let Some((&n, inner)) = shape.split_first() else {
        // The bytes are those of one element.
        if let Ok(l) = Literal::from_bytes(dtype, (), bytes) {
            let _ = with_dtype!(dtype, T => write!(text, "{:?}", <T as Element>::load(l.stored::<T>()[0])));
        }
        return;
    };
    text.push('[');
    let each = bytes.len() / n.max(1);
    for i in 0..n {
        if i > 0 {
            text.push_str(", ");
        }
        nested(text, dtype, inner, &bytes[i * each..(i + 1) * each]);
    }
    text.push(']');
}

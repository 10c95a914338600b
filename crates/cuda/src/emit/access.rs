//! Where a load or store finds its elements, as C.

use passes::Loop;

/// How the elements of a vector along the last dimension are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They lie side by side, aligned.
    Vector,
    /// They are one element.
    Same,
    /// They lie this many elements apart.
    Apart(isize),
}

/// How a vector of `width` elements is accessed.
pub fn how(strides: &[isize], offset: usize, width: usize) -> How {
    let Some((&last, rest)) = strides.split_last() else { return How::Same };
    let is_aligned = offset.is_multiple_of(width) && rest.iter().all(|s| s % width as isize == 0);
    match last {
        0 => How::Same,
        1 if is_aligned => How::Vector,
        s => How::Apart(s),
    }
}

/// The number of an element, given a name for the place in each dimension.
pub fn index(strides: &[isize], offset: usize, at: &[String]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (s, i) in strides.iter().zip(at).filter(|(s, _)| **s != 0) {
        parts.push(match *s {
            1 => i.clone(),
            s if s < 0 => format!("{i} * (idx){s}"),
            s => format!("{i} * {s}"),
        });
    }
    if offset > 0 || parts.is_empty() {
        parts.push(offset.to_string());
    }
    parts.join(" + ")
}

/// Splits the number in `from` into places of these sizes, named `{prefix}0`…: the statements
/// that do it, and the names.
pub fn split(dims: &[usize], from: &str, prefix: &str) -> (String, Vec<String>) {
    let names: Vec<String> = (0..dims.len()).map(|d| format!("{prefix}{d}")).collect();
    let mut text = String::new();
    let mut rest = from.to_string();
    for d in (0..dims.len()).rev() {
        if d == 0 {
            text += &format!("const idx {} = {rest}; ", names[d]);
        } else {
            text += &format!("const idx {0} = {rest} % {1}u, {0}r = {rest} / {1}u; ", names[d], dims[d]);
            rest = format!("{}r", names[d]);
        }
    }
    (text, names)
}

/// Elements a thread handles side by side: as many as one access of 16 bytes moves, as long as
/// enough threads have something to do.
pub fn width(l: &Loop, accesses: &[(&[isize], usize)]) -> usize {
    let Some(&last) = l.dims.last() else { return 1 };
    let sizes = accesses.iter().filter(|(s, _)| s.last() == Some(&1)).map(|&(_, size)| size);
    let Some(size) = sizes.max() else { return 1 };
    let total: usize = l.dims.iter().product();
    let mut width = (16 / size).min(8);
    while width > 1 && (!last.is_multiple_of(width) || total / width < 8192) {
        width /= 2;
    }
    width
}

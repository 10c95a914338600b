//! A kernel as WGSL text, before it is known where its operands lie: bodies read and write words through functions of
//! their own for each parameter (`rd0`, `wr0`), which [`Kernel::source`] writes for the buffers the values lie in.
//!
//! A buffer is bound once, whole, since WebGPU forbids two bindings of one buffer of which one is written. Elements of
//! less than a word are written with atomic operations: neighbors share the word.

use crate::element::Class;
use ir::{DType, Slot};
use passes::Operand;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::OnceLock;

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A stored value.
    Value(Slot),
    /// A byte of the region's scratch space.
    Scratch(usize),
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// What it is.
    pub arg: Arg,
    /// It is written.
    pub is_written: bool,
    /// Parts of words are written.
    pub is_atomic: bool,
}

/// A kernel with its launch.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The body of the entry point.
    pub body: String,
    /// Declarations before it.
    pub before: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Workgroups.
    pub groups: usize,
    /// Threads of a workgroup.
    pub block: usize,
    /// It reports bad indices.
    pub reports: bool,
    /// A number of the launch, which the body reads as `P.head.w`: launches that differ in it share a pipeline.
    pub number: u32,
}

/// The most workgroups along a dimension of a launch.
const GROUPS_MAX: usize = 65535;

/// Threads of a workgroup where each has a point of its own.
pub const BLOCK: usize = 64;

impl Kernel {
    /// The launch's sizes.
    pub fn grid(&self) -> [u32; 2] {
        let x = self.groups.min(GROUPS_MAX);
        [x as u32, self.groups.div_ceil(x.max(1)) as u32]
    }
    /// The bindings: the buffers of its parameters, in order of first use, and whether each is written. `base` maps a
    /// parameter to its buffer.
    pub fn bindings(&self, base: &dyn Fn(Arg) -> u32) -> Vec<(u32, bool)> {
        let mut list: Vec<(u32, bool)> = Vec::new();
        for p in &self.params {
            let b = base(p.arg);
            match list.iter_mut().find(|(c, _)| *c == b) {
                Some((_, is_written)) => *is_written |= p.is_written,
                None => list.push((b, p.is_written)),
            }
        }
        list
    }
    /// The whole source for parameters that lie in these buffers.
    pub fn source(&self, base: &dyn Fn(Arg) -> u32) -> String {
        let bindings = self.bindings(base);
        let binding = |p: &Param| bindings.iter().position(|(b, _)| *b == base(p.arg)).expect("listed above");
        let is_atomic = |k: usize| self.params.iter().any(|p| binding(p) == k && p.is_atomic);
        let mut s = String::new();
        let vectors = self.params.len().div_ceil(4).max(1);
        // Writing to a string does not fail.
        let _ = writeln!(
            s,
            "struct Params {{ head: vec4<u32>, at: array<vec4<u32>, {vectors}> }}\n@group(0) @binding(0) var<uniform> P: Params;"
        );
        for (k, (_, is_written)) in bindings.iter().enumerate() {
            let access = if *is_written { "read_write" } else { "read" };
            let ty = if is_atomic(k) { "atomic<u32>" } else { "u32" };
            let _ = writeln!(s, "@group(0) @binding({}) var<storage, {access}> b{k}: array<{ty}>;", k + 1);
        }
        if self.reports {
            let at = bindings.len() + 1;
            let _ = writeln!(s, "@group(0) @binding({at}) var<storage, read_write> report: array<atomic<u32>>;");
            s += REPORT;
        }
        for (k, p) in self.params.iter().enumerate() {
            s += &accessors(k, p, binding(p), is_atomic(binding(p)));
        }
        let used = library(&format!("{}{}{}", self.before, self.body, if self.reports { REPORT } else { "" }));
        let _ = write!(
            s,
            "{used}{}@compute @workgroup_size({})\nfn main(@builtin(workgroup_id) wid: vec3<u32>, \
             @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{\n\
             let group = wid.x + wid.y * groups.x;\n{}}}\n",
            self.before, self.block, self.body
        );
        s
    }
}

/// Reports an index that is not among `0..size`: the first one reported stays.
const REPORT: &str = "fn checked(j: vec2<u32>, size: u32) -> u32 {\n\
    if (j.y == 0u && j.x < size) { return j.x; }\n\
    if (atomicOr(&report[0], 1u) == 0u) { atomicStore(&report[1], P.head.z); atomicStore(&report[2], j.x); atomicStore(&report[3], j.y); }\n\
    return 0u;\n}\n";

/// The functions with which a body reads and writes a parameter, by word from its first.
fn accessors(k: usize, p: &Param, binding: usize, is_atomic: bool) -> String {
    let at = format!("P.at[{}][{}] + i", k / 4, k % 4);
    let mut s = if is_atomic {
        format!("fn rd{k}(i: u32) -> u32 {{ return atomicLoad(&b{binding}[{at}]); }}\n")
    } else {
        format!("fn rd{k}(i: u32) -> u32 {{ return b{binding}[{at}]; }}\n")
    };
    if p.is_written {
        let _ = match is_atomic {
            true => writeln!(s, "fn wr{k}(i: u32, v: u32) {{ atomicStore(&b{binding}[{at}], v); }}"),
            false => writeln!(s, "fn wr{k}(i: u32, v: u32) {{ b{binding}[{at}] = v; }}"),
        };
    }
    if p.is_atomic {
        for (name, shift, mask) in [("pb", "2u", "255u"), ("ph", "1u", "65535u")] {
            let by = if name == "pb" { "(j & 3u) * 8u" } else { "(j & 1u) * 16u" };
            let _ = writeln!(
                s,
                "fn {name}{k}(j: u32, v: u32) {{\nlet i = j >> {shift}; let n = {by};\n\
                 atomicAnd(&b{binding}[{at}], ~({mask} << n)); atomicOr(&b{binding}[{at}], (v & {mask}) << n);\n}}"
            );
        }
    }
    s
}

/// The functions of the prelude, by name.
fn functions() -> &'static BTreeMap<&'static str, &'static str> {
    static ALL: OnceLock<BTreeMap<&str, &str>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files = [include_str!("prelude.wgsl"), include_str!("math.wgsl")];
        let parts = files.iter().flat_map(|f| f.split("\nfn ").skip(1));
        parts.filter_map(|p| Some((p.split_once('(')?.0, p.rsplit_once('}').map_or(p, |(text, _)| text)))).collect()
    })
}

/// Whether the prelude has a function.
pub fn has(name: &str) -> bool {
    functions().contains_key(name)
}

/// The functions of the prelude that a text uses, directly or not.
fn library(text: &str) -> String {
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![text];
    while let Some(text) = open.pop() {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words {
            if let Some((name, body)) = functions().get_key_value(word)
                && used.insert(name)
            {
                open.push(body);
            }
        }
    }
    used.iter().map(|name| format!("fn {}}}\n", functions()[name])).collect()
}

/// A parameter as elements of a type.
#[derive(Clone, Debug)]
pub struct Ptr {
    k: usize,
    dtype: DType,
    offset: usize,
}

impl Ptr {
    fn place(&self, i: &str) -> String {
        if self.offset == 0 { format!("({i})") } else { format!("({i} + {}u)", self.offset) }
    }
    /// Element `i` as a number of its class.
    pub fn at(&self, i: &str) -> String {
        let (k, i) = (self.k, self.place(i));
        match self.dtype {
            DType::F32 => format!("bitcast<f32>(rd{k}({i}))"),
            DType::I32 => format!("bitcast<i32>(rd{k}({i}))"),
            DType::U32 => format!("rd{k}({i})"),
            DType::Bool => format!("get_u8(rd{k}({i} >> 2u), {i})"),
            d if d.size() == 1 => format!("get_{d}(rd{k}({i} >> 2u), {i})"),
            d if d.size() == 2 => format!("get_{d}(rd{k}({i} >> 1u), {i})"),
            _ => format!("vec2<u32>(rd{k}({i} * 2u), rd{k}({i} * 2u + 1u))"),
        }
    }
    /// The statement that stores a number of its class as element `i`; both are evaluated more than once.
    pub fn put(&self, i: &str, v: &str) -> String {
        let (k, i) = (self.k, self.place(i));
        match self.dtype {
            DType::F32 | DType::I32 => format!("wr{k}({i}, bitcast<u32>({v}));\n"),
            DType::U32 => format!("wr{k}({i}, {v});\n"),
            DType::F16 | DType::BF16 => format!("ph{k}({i}, bits_{}({v}));\n", self.dtype),
            DType::F8E4M3 | DType::F8E5M2 => format!("pb{k}({i}, bits_{}({v}));\n", self.dtype),
            d if d.size() == 1 => format!("pb{k}({i}, bitcast<u32>({v}));\n"),
            d if d.size() == 2 => format!("ph{k}({i}, bitcast<u32>({v}));\n"),
            _ => format!("{{ let w = {v}; wr{k}({i} * 2u, w.x); wr{k}({i} * 2u + 1u, w.y); }}\n"),
        }
    }
}

/// A kernel being written.
#[derive(Default)]
pub struct Text {
    params: Vec<Param>,
    /// Declarations before the entry point.
    pub before: String,
    reports: bool,
}

impl Text {
    /// An empty one.
    pub fn new() -> Text {
        Text::default()
    }
    /// A parameter as elements of a type.
    pub fn param(&mut self, arg: Arg, dtype: DType, offset: usize, is_written: bool) -> Ptr {
        let k = self.params.iter().position(|p| p.arg == arg).unwrap_or_else(|| {
            self.params.push(Param { arg, is_written: false, is_atomic: false });
            self.params.len() - 1
        });
        let p = &mut self.params[k];
        p.is_written |= is_written;
        p.is_atomic |= is_written && dtype.size() < 4;
        Ptr { k, dtype, offset }
    }
    /// An operand.
    pub fn reads(&mut self, o: &Operand) -> Ptr {
        self.param(Arg::Value(o.slot), o.ty.dtype, o.layout.offset, false)
    }
    /// A result.
    pub fn writes(&mut self, o: &Operand) -> Ptr {
        self.param(Arg::Value(o.slot), o.ty.dtype, o.layout.offset, true)
    }
    /// Operands and results whose elements are moved as they are.
    pub fn reads_bits(&mut self, o: &Operand) -> Ptr {
        self.param(Arg::Value(o.slot), crate::element::bits(o.ty.dtype), o.layout.offset, false)
    }
    /// See [`Text::reads_bits`].
    pub fn writes_bits(&mut self, o: &Operand) -> Ptr {
        self.param(Arg::Value(o.slot), crate::element::bits(o.ty.dtype), o.layout.offset, true)
    }
    /// Scratch space as numbers of a class.
    pub fn scratch(&mut self, at: usize, class: Class, is_written: bool) -> Ptr {
        self.param(Arg::Scratch(at), class.dtype(), 0, is_written)
    }
    /// Lets the body call `checked`.
    pub fn reports(&mut self) {
        self.reports = true;
    }
    /// One thread for each of `count` things, numbered `i`.
    pub fn each(self, count: usize, body: &str) -> Option<Vec<Kernel>> {
        if count == 0 {
            return Some(Vec::new());
        }
        let body = format!("let i = group * {BLOCK}u + lane;\nif (i >= {count}u) {{ return; }}\n{body}");
        self.groups(count.div_ceil(BLOCK), BLOCK, &body)
    }
    /// So many workgroups of so many threads; `group` and `lane` are their numbers. Groups beyond return at once.
    pub fn groups(self, groups: usize, block: usize, body: &str) -> Option<Vec<Kernel>> {
        if groups == 0 {
            return Some(Vec::new());
        }
        // Numbers of elements are u32.
        let _ = u32::try_from(groups.checked_mul(block)?).ok()?;
        let body = format!("if (group >= {groups}u) {{ return; }}\n{body}");
        Some(vec![Kernel {
            body,
            before: self.before,
            params: self.params,
            groups,
            block,
            reports: self.reports,
            number: 0,
        }])
    }
}

/// The number of an element, given a name for the place in each dimension. Negative steps wrap around.
pub fn index(strides: &[isize], offset: usize, at: &[String]) -> String {
    let term = |(s, i): (&isize, &String)| match *s {
        0 => None,
        1 => Some(i.clone()),
        s => Some(format!("{i} * {}u", s as u32)),
    };
    let mut parts: Vec<String> = strides.iter().zip(at).filter_map(term).collect();
    if offset > 0 || parts.is_empty() {
        parts.push(format!("{offset}u"));
    }
    parts.join(" + ")
}

/// Splits the number in `from` into places of these sizes, named `{prefix}0`…: the statements, and the names.
pub fn split(dims: &[usize], from: &str, prefix: &str) -> (String, Vec<String>) {
    let names: Vec<String> = (0..dims.len()).map(|d| format!("{prefix}{d}")).collect();
    let mut text = String::new();
    let mut rest = from.to_string();
    for d in (0..dims.len()).rev() {
        if d == 0 {
            text += &format!("let {} = {rest};\n", names[d]);
        } else {
            text += &format!("let {0} = {rest} % {1}u; let {0}r = {rest} / {1}u;\n", names[d], dims[d].max(1));
            rest = format!("{}r", names[d]);
        }
    }
    (text, names)
}

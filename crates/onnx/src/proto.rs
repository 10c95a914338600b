//! The messages of an ONNX file, as far as they are read. What a message costs in memory is counted, so that a small
//! file cannot become a large tree.

use crate::wire::{Field, fields};
use ir::{Error, Result};
use std::cell::Cell;
use std::ops::Range;

/// Messages in a file at most: nodes, attributes, values, tensors.
const MESSAGES_MAX: usize = 4_000_000;
/// Graphs within graphs at most.
const DEPTH_MAX: usize = 32;

/// A model as it is in the file.
#[derive(Default)]
pub struct ModelProto {
    pub ir_version: i64,
    pub opsets: Vec<(String, i64)>,
    pub producer: String,
    pub graph: Option<GraphProto>,
    pub functions: Vec<FunctionProto>,
}

/// A graph.
#[derive(Default)]
pub struct GraphProto {
    pub name: String,
    pub nodes: Vec<NodeProto>,
    pub initializers: Vec<TensorProto>,
    pub sparse: Vec<SparseProto>,
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
}

/// A node.
#[derive(Default)]
pub struct NodeProto {
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub name: String,
    pub op: String,
    pub domain: String,
    pub overload: String,
    pub attributes: Vec<AttributeProto>,
}

/// An attribute.
#[derive(Default)]
pub struct AttributeProto {
    pub name: String,
    /// Stands for this attribute of the function around it.
    pub reference: String,
    pub value: AttributeValue,
}

/// What an attribute holds.
#[derive(Default)]
#[allow(clippy::large_enum_variant, reason = "attributes are few, and none is copied")]
pub enum AttributeValue {
    #[default]
    None,
    Float(f32),
    Int(i64),
    Bytes(Vec<u8>),
    Tensor(TensorProto),
    Graph(GraphProto),
    Sparse(SparseProto),
    Type(TypeProto),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Strings(Vec<Vec<u8>>),
    #[allow(dead_code, reason = "refused by name")]
    Tensors(Vec<TensorProto>),
}

/// A tensor. Its bytes stay in the file.
#[derive(Default)]
pub struct TensorProto {
    pub dims: Vec<i64>,
    pub elem: i32,
    pub name: String,
    pub raw: Option<Range<usize>>,
    pub floats: Vec<f32>,
    /// `int32_data`.
    pub ints32: Vec<i64>,
    pub ints64: Vec<i64>,
    pub doubles: Vec<f64>,
    pub uints64: Vec<i64>,
    pub strings: Vec<Vec<u8>>,
    pub external: Vec<(String, String)>,
    pub is_external: bool,
}

/// A sparse tensor.
#[derive(Default)]
pub struct SparseProto {
    pub values: TensorProto,
    pub indices: TensorProto,
    pub dims: Vec<i64>,
}

/// A name with a type.
#[derive(Default)]
pub struct ValueInfo {
    pub name: String,
    pub ty: TypeProto,
}

/// A size that is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    Any,
    Fixed(usize),
    Named(String),
}

/// A type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TypeProto {
    #[default]
    Unknown,
    Tensor {
        elem: i32,
        shape: Option<Vec<Dim>>,
    },
    Sequence(Box<TypeProto>),
    Optional(Box<TypeProto>),
    Other,
}

/// A function of the model's own.
#[derive(Default)]
pub struct FunctionProto {
    pub name: String,
    pub domain: String,
    pub overload: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub attributes: Vec<String>,
    pub defaults: Vec<AttributeProto>,
    pub nodes: Vec<NodeProto>,
    pub opsets: Vec<(String, i64)>,
}

/// Reads messages of one file.
pub struct Decoder {
    /// Where the file begins in memory.
    base: usize,
    left: Cell<usize>,
}

impl Decoder {
    /// For messages within these bytes.
    pub fn new(file: &[u8]) -> Decoder {
        Decoder { base: file.as_ptr().addr(), left: Cell::new(MESSAGES_MAX) }
    }

    fn charge(&self) -> Result<()> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return Err(Error::format(format!("the file has more than {MESSAGES_MAX} messages"))),
        }
        Ok(())
    }

    /// A model.
    pub fn model(&self, bytes: &[u8]) -> Result<ModelProto> {
        let mut m = ModelProto::default();
        fields(bytes, |n, f| {
            match n {
                1 => m.ir_version = f.int()?,
                2 => m.producer = f.text()?,
                7 => m.graph = Some(self.graph(f.bytes()?, 0)?),
                8 => m.opsets.push(self.opset(f)?),
                25 => m.functions.push(self.function(f.bytes()?)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(m)
    }

    fn opset(&self, f: Field<'_>) -> Result<(String, i64)> {
        self.charge()?;
        let (mut domain, mut version) = (String::new(), 0);
        fields(f.bytes()?, |n, f| {
            match n {
                1 => domain = f.text()?,
                2 => version = f.int()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok((domain, version))
    }

    fn graph(&self, bytes: &[u8], depth: usize) -> Result<GraphProto> {
        self.charge()?;
        if depth > DEPTH_MAX {
            return Err(Error::format(format!("graphs are nested deeper than {DEPTH_MAX}")));
        }
        let mut g = GraphProto::default();
        fields(bytes, |n, f| {
            match n {
                1 => g.nodes.push(self.node(f.bytes()?, depth)?),
                2 => g.name = f.text()?,
                5 => g.initializers.push(self.tensor(f.bytes()?)?),
                15 => g.sparse.push(self.sparse(f.bytes()?)?),
                11 => g.inputs.push(self.value_info(f.bytes()?)?),
                12 => g.outputs.push(self.value_info(f.bytes()?)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(g)
    }

    fn node(&self, bytes: &[u8], depth: usize) -> Result<NodeProto> {
        self.charge()?;
        let mut node = NodeProto::default();
        fields(bytes, |n, f| {
            match n {
                1 => node.inputs.push(f.text()?),
                2 => node.outputs.push(f.text()?),
                3 => node.name = f.text()?,
                4 => node.op = f.text()?,
                5 => node.attributes.push(self.attribute(f.bytes()?, depth)?),
                7 => node.domain = f.text()?,
                8 => node.overload = f.text()?,
                _ => {}
            }
            Ok(())
        })?;
        if node.domain == "ai.onnx" {
            node.domain.clear();
        }
        Ok(node)
    }

    fn function(&self, bytes: &[u8]) -> Result<FunctionProto> {
        self.charge()?;
        let mut out = FunctionProto::default();
        fields(bytes, |n, f| {
            match n {
                1 => out.name = f.text()?,
                4 => out.inputs.push(f.text()?),
                5 => out.outputs.push(f.text()?),
                6 => out.attributes.push(f.text()?),
                7 => out.nodes.push(self.node(f.bytes()?, 0)?),
                9 => out.opsets.push(self.opset(f)?),
                10 => out.domain = f.text()?,
                11 => out.defaults.push(self.attribute(f.bytes()?, 0)?),
                13 => out.overload = f.text()?,
                _ => {}
            }
            Ok(())
        })?;
        if out.domain == "ai.onnx" {
            out.domain.clear();
        }
        Ok(out)
    }

    fn attribute(&self, bytes: &[u8], depth: usize) -> Result<AttributeProto> {
        use AttributeValue as V;
        self.charge()?;
        let mut a = AttributeProto::default();
        let (mut kind, mut one) = (0, V::None);
        let (mut floats, mut ints, mut strings, mut tensors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        fields(bytes, |n, f| {
            match n {
                1 => a.name = f.text()?,
                2 => one = V::Float(f.float()?),
                3 => one = V::Int(f.int()?),
                4 => one = V::Bytes(f.bytes()?.to_vec()),
                5 => one = V::Tensor(self.tensor(f.bytes()?)?),
                6 => one = V::Graph(self.graph(f.bytes()?, depth + 1)?),
                22 => one = V::Sparse(self.sparse(f.bytes()?)?),
                14 => one = V::Type(self.ty(f.bytes()?, 0)?),
                7 => f.floats(&mut floats)?,
                8 => f.ints(&mut ints)?,
                9 => strings.push(f.bytes()?.to_vec()),
                10 => tensors.push(self.tensor(f.bytes()?)?),
                20 => kind = f.int()?,
                21 => a.reference = f.text()?,
                _ => {}
            }
            Ok(())
        })?;
        // Proto3 leaves out what is zero, and the oldest files have no type.
        a.value = match (kind, one) {
            (1, V::None) => V::Float(0.0),
            (2, V::None) => V::Int(0),
            (3, V::None) => V::Bytes(Vec::new()),
            (6, _) => V::Floats(floats),
            (7, _) => V::Ints(ints),
            (8, _) => V::Strings(strings),
            (9, _) => V::Tensors(tensors),
            (_, V::None) if !floats.is_empty() => V::Floats(floats),
            (_, V::None) if !ints.is_empty() => V::Ints(ints),
            (_, V::None) if !strings.is_empty() => V::Strings(strings),
            (_, one) => one,
        };
        Ok(a)
    }

    /// A tensor.
    pub fn tensor(&self, bytes: &[u8]) -> Result<TensorProto> {
        self.charge()?;
        let mut t = TensorProto::default();
        fields(bytes, |n, f| {
            match n {
                1 => f.ints(&mut t.dims)?,
                2 => t.elem = f.int()? as i32,
                4 => f.floats(&mut t.floats)?,
                5 => f.ints(&mut t.ints32)?,
                6 => t.strings.push(f.bytes()?.to_vec()),
                7 => f.ints(&mut t.ints64)?,
                8 => t.name = f.text()?,
                9 => {
                    let raw = f.bytes()?;
                    let at = raw.as_ptr().addr() - self.base;
                    t.raw = Some(at..at + raw.len());
                }
                10 => f.doubles(&mut t.doubles)?,
                11 => f.ints(&mut t.uints64)?,
                13 => t.external.push(self.entry(f)?),
                14 => t.is_external = f.int()? == 1,
                _ => {}
            }
            Ok(())
        })?;
        Ok(t)
    }

    fn entry(&self, f: Field<'_>) -> Result<(String, String)> {
        self.charge()?;
        let (mut key, mut value) = (String::new(), String::new());
        fields(f.bytes()?, |n, f| {
            match n {
                1 => key = f.text()?,
                2 => value = f.text()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok((key, value))
    }

    fn sparse(&self, bytes: &[u8]) -> Result<SparseProto> {
        self.charge()?;
        let mut s = SparseProto::default();
        fields(bytes, |n, f| {
            match n {
                1 => s.values = self.tensor(f.bytes()?)?,
                2 => s.indices = self.tensor(f.bytes()?)?,
                3 => f.ints(&mut s.dims)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(s)
    }

    fn value_info(&self, bytes: &[u8]) -> Result<ValueInfo> {
        self.charge()?;
        let mut v = ValueInfo::default();
        fields(bytes, |n, f| {
            match n {
                1 => v.name = f.text()?,
                2 => v.ty = self.ty(f.bytes()?, 0)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(v)
    }

    fn ty(&self, bytes: &[u8], depth: usize) -> Result<TypeProto> {
        self.charge()?;
        if depth > DEPTH_MAX {
            return Err(Error::format(format!("types are nested deeper than {DEPTH_MAX}")));
        }
        let mut out = TypeProto::Unknown;
        fields(bytes, |n, f| {
            match n {
                1 => out = self.tensor_type(f.bytes()?)?,
                4 | 9 => {
                    let mut inner = TypeProto::Unknown;
                    fields(f.bytes()?, |n, f| {
                        if n == 1 {
                            inner = self.ty(f.bytes()?, depth + 1)?;
                        }
                        Ok(())
                    })?;
                    let inner = Box::new(inner);
                    out = if n == 4 { TypeProto::Sequence(inner) } else { TypeProto::Optional(inner) };
                }
                5 | 7 | 8 => out = TypeProto::Other,
                _ => {}
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn tensor_type(&self, bytes: &[u8]) -> Result<TypeProto> {
        let (mut elem, mut shape) = (0, None);
        fields(bytes, |n, f| {
            match n {
                1 => elem = f.int()? as i32,
                2 => {
                    let mut dims = Vec::new();
                    fields(f.bytes()?, |n, f| {
                        if n == 1 {
                            dims.push(self.dim(f.bytes()?)?);
                        }
                        Ok(())
                    })?;
                    shape = Some(dims);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(TypeProto::Tensor { elem, shape })
    }

    fn dim(&self, bytes: &[u8]) -> Result<Dim> {
        self.charge()?;
        let mut out = Dim::Any;
        fields(bytes, |n, f| {
            match n {
                // Negative sizes stand for unknown ones in files of old exporters.
                1 => out = usize::try_from(f.int()?).map_or(Dim::Any, Dim::Fixed),
                2 => {
                    let name = f.text()?;
                    out = if name.is_empty() { Dim::Any } else { Dim::Named(name) };
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The messages in field 1 of a sequence, with the kind of its elements.
    pub fn parts<'a>(&self, bytes: &'a [u8]) -> Result<(i64, Vec<(u32, &'a [u8])>)> {
        let (mut kind, mut parts) = (0, Vec::new());
        fields(bytes, |n, f| {
            self.charge()?;
            match (n, f) {
                (2, f) => kind = f.int().unwrap_or(kind),
                (1, _) => {}
                _ => {}
            }
            if let Field::Bytes(b) = f
                && n >= 3
            {
                parts.push((n, b));
            }
            Ok(())
        })?;
        Ok((kind, parts))
    }
}

//! The row of the op table: everything the system knows about an op is said here once.

use crate::verify::RANK_MAX;
use crate::{
    Attr, AttrKind, Attrs, Buffer, DType, Error, Generate, Graph, Layout, Literal, OnPart, Resize, Result, Shape,
    Shard, Value,
};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Element type and shape of a value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
}
impl Type {
    /// From its parts.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Type {
        Type { dtype, shape: shape.into() }
    }
    /// Complex numbers as their parts: a new last dimension of size 2. Other types as they are.
    pub fn paired(&self) -> Type {
        let mut t = self.clone();
        if t.dtype.is_complex() {
            t.dtype = t.dtype.part();
            t.shape.push(2);
        }
        t
    }
    /// Bytes a value of this type takes, saturating.
    pub fn bytes(&self) -> usize {
        self.shape.count().saturating_mul(self.dtype.size())
    }
    /// Fails unless every size and stride, counted in bytes, stays addressable: a product that
    /// overflows would pass unnoticed later. Empty dimensions do not excuse the others, as strides
    /// step over them too.
    fn check_size(&self, what: &str) -> Result<()> {
        let rank = self.shape.rank();
        if rank > RANK_MAX {
            return Err(Error::shape(format!("{what} would have {rank} dimensions, but {RANK_MAX} is the most")));
        }
        let span = self.shape.iter().fold(self.dtype.size(), |a, &d| a.saturating_mul(d.max(1)));
        if span <= isize::MAX as usize / 2 {
            return Ok(());
        }
        Err(Error::shape(format!("{what} of type {self} is too large")))
    }
}
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}
impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The types of an op's results; most ops have one.
pub type Types = SmallVec<[Type; 1]>;

/// One use of an op: the types that go in and the attributes.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Types of the inputs.
    pub types: &'a [Type],
    /// Attributes.
    pub attrs: &'a Attrs,
}

impl Call<'_> {
    /// Fails unless exactly `n` inputs came.
    pub fn arity(&self, n: usize) -> Result<()> {
        if self.types.len() == n {
            return Ok(());
        }
        Err(Error::value(format!("takes {n} inputs, but {} were given", self.types.len())))
    }
    /// Shape of input `i`.
    pub fn shape(&self, i: usize) -> &Shape {
        &self.types[i].shape
    }
    /// Type of input `i`'s elements.
    pub fn dtype(&self, i: usize) -> DType {
        self.types[i].dtype
    }
    /// A checked axis attribute: `name` must lie in `0..rank` of input 0.
    pub fn axis(&self, name: &str) -> Result<usize> {
        let axis = self.attrs.size(name)?;
        let rank = self.shape(0).rank();
        if axis < rank {
            return Ok(axis);
        }
        Err(Error::index(format!("{name} {axis} is out of range for a tensor of rank {rank}")))
    }
}

/// What an elementwise op's result type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The inputs' common type.
    Same,
    /// The inputs' common type, integers computed as `f32`.
    Float,
    /// Booleans.
    Bool,
    /// The type in attribute `dtype`.
    Cast,
    /// The first input is bool, the rest share the result's type.
    Select,
}

/// An op applied to each element: its meaning on numbers and as text for code generators.
#[derive(Clone, Copy)]
pub struct Scalar {
    /// How many inputs; they are broadcast against each other.
    pub arity: usize,
    /// The result's type.
    pub out: Out,
    /// The value for floats (and, for `Out::Float`, of converted integers).
    pub float: fn(&[f64]) -> f64,
    /// The value for integers and bool, in a type that holds them all; the result wraps to its own.
    /// `None`: not defined on them.
    pub int: Option<fn(&[i128]) -> i128>,
    /// C expression with `{0}`, `{1}`… for the inputs, in C's float functions without suffix.
    pub code: &'static str,
    /// `x op neutral = x`: the value that makes the op the identity of its first input, and
    /// whether the neutral value may stand first as well. For floats it is this very bit pattern
    /// (adding 0.0 turns -0.0 into 0.0, adding -0.0 changes nothing), for integers its value.
    pub neutral: Option<(f64, bool)>,
    /// Interval from which samples are drawn.
    pub domain: (f64, f64),
    /// What it costs to compute one element.
    pub cost: Cost,
}

/// What one element of an elementwise op costs: schedulers size tasks by it, and rematerialization
/// and gradients of loops decide by it what to compute again instead of storing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// One instruction: `+`, `*`, a comparison, a select.
    Instruction,
    /// A few instructions: rounding, sign, NaN-propagating minimum and maximum.
    Short,
    /// A division or a square root.
    Division,
    /// An elementary function such as `exp`.
    Function,
    /// Several elementary functions.
    Special,
}
impl Cost {
    /// The cost in simple operations.
    pub fn work(self) -> usize {
        match self {
            Cost::Instruction | Cost::Short => 1,
            Cost::Division => 3,
            Cost::Function => 8,
            Cost::Special => 24,
        }
    }
}

impl Scalar {
    /// What a row need not say. It must say `arity`, `float` and `code`.
    pub const DEFAULT: Scalar = Scalar {
        arity: 1,
        out: Out::Same,
        float: |_| f64::NAN,
        int: None,
        code: "",
        neutral: None,
        domain: (-2.0, 2.0),
        cost: Cost::Function,
    };

    /// The type rule of every elementwise op: inputs of one type, shapes broadcast.
    pub fn infer(c: &Call, arity: usize, out: Out, has_int: bool) -> Result<Types> {
        c.arity(arity)?;
        let first = if out == Out::Select { 1 } else { 0 };
        if out == Out::Select && c.dtype(0) != DType::Bool {
            return Err(Error::dtype(format!("the condition must be bool, not {}", c.dtype(0))));
        }
        let dtype = c.dtype(first);
        if let Some(t) = c.types[first..].iter().find(|t| t.dtype != dtype) {
            return Err(Error::dtype(format!("element types differ: {dtype} and {}", t.dtype)));
        }
        if !matches!(out, Out::Cast | Out::Select) {
            dtype.check_computes()?;
        }
        if !dtype.is_float() && !has_int && out != Out::Float {
            return Err(Error::dtype(format!("not defined for {dtype}")));
        }
        let shapes: SmallVec<[&Shape; 3]> = c.types.iter().map(|t| &t.shape).collect();
        let shape = crate::broadcast_shapes(&shapes)?;
        let dtype = match out {
            Out::Same | Out::Select => dtype,
            Out::Float => dtype.to_float(),
            Out::Bool => DType::Bool,
            Out::Cast => c.attrs.dtype("dtype")?,
        };
        Ok(SmallVec::from_iter([Type { dtype, shape }]))
    }
}

/// An associative combination with a neutral start, used by reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Monoid {
    /// Sum, from 0.
    Sum,
    /// Product, from 1.
    Prod,
    /// Greatest, from the least value; NaN wins.
    Max,
    /// Least, from the greatest value; NaN wins.
    Min,
}

/// Runs a sub-graph on values: what control-flow ops are given to execute their bodies.
pub type RunGraph<'a> = &'a mut dyn FnMut(&Arc<Graph>, &[Buffer]) -> Result<Vec<Buffer>>;

/// What an op computes.
#[derive(Clone, Copy)]
pub enum Meaning {
    /// A value given from outside; only in flat graphs.
    Input,
    /// The constant in attribute `value`.
    Const,
    /// Elementwise.
    Scalar(Scalar),
    /// The same elements seen through other strides. Given the input's layout, the output's; or
    /// `None` where it cannot be said with strides until the input is made contiguous.
    View(fn(&Call, &Layout) -> Result<Option<Layout>>),
    /// The same bytes as another type: complex numbers as pairs of real ones, and back.
    Recast,
    /// Combination along the axes in attribute `axes`, which are kept as size 1 (attribute-free
    /// squeezing is a view).
    Reduce(Monoid),
    /// A slow obvious reference; devices claim it.
    Kernel(fn(&Call, &[Literal]) -> Result<Vec<Literal>>),
    /// Other ops; devices may claim it, else it is decomposed.
    Composite(fn(&Call, &[Value]) -> Result<Vec<Value>>),
    /// Control flow over the sub-graphs in its attributes, on values that stay where they are.
    Control(fn(&Call, &[Buffer], RunGraph) -> Result<Vec<Buffer>>),
}

/// What a gradient rule gets.
pub struct GradCall<'a> {
    /// The node's attributes.
    pub attrs: &'a Attrs,
    /// Its inputs.
    pub inputs: &'a [Value],
    /// Its outputs.
    pub outputs: &'a [Value],
    /// Gradient of the loss with respect to each output; `None` is zero.
    pub grads: &'a [Option<Value>],
    /// Which inputs a gradient is asked for.
    pub wanted: &'a [bool],
}

/// How an op is differentiated.
#[derive(Clone, Copy)]
pub enum Grad {
    /// Through the ops a composite consists of.
    Expand,
    /// By this rule: a gradient for each input, `None` for zero.
    Rule(fn(&GradCall) -> Result<Vec<Option<Value>>>),
    /// Piecewise constant: the gradient is zero wherever it exists.
    Zero,
    /// Not differentiable, and why.
    Missing(&'static str),
}

/// What a batching rule gets: inputs of which some carry a leading batch dimension.
pub struct BatchCall<'a> {
    /// The op's row.
    pub op: &'static Op,
    /// The node's attributes.
    pub attrs: &'a Attrs,
    /// Inputs.
    pub inputs: &'a [Value],
    /// Which inputs carry the batch dimension, at axis 0.
    pub batched: &'a [bool],
    /// Batch size.
    pub size: usize,
}

/// How `vmap` treats an op.
#[derive(Clone, Copy)]
pub enum Batch {
    /// By kind: elementwise ops align ranks, composites expand, the rest loop over the batch.
    Auto,
    /// By this rule; every result carries the batch dimension at axis 0.
    Rule(fn(&BatchCall) -> Result<Vec<Value>>),
}

/// What `autocast` does with the inputs of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autocast {
    /// f32 inputs are converted to the scope's 16-bit type: the op is a GEMM, a convolution or attention.
    Narrow,
    /// 16-bit inputs are converted to f32: the op sums up or exponentiates.
    Wide,
    /// As outside of the scope.
    Promote,
}

/// A call of an op with complex inputs.
pub struct ComplexCall<'a> {
    /// The op's row.
    pub op: &'static Op,
    /// Inputs, of which some are complex.
    pub inputs: &'a [Value],
    /// Attributes.
    pub attrs: &'a Attrs,
}

/// What an op does with complex inputs.
#[derive(Clone, Copy)]
pub enum OnComplex {
    /// By kind: linear ops and views work on the real and the imaginary part alone, composites expand, other ops
    /// refuse complex inputs.
    Auto,
    /// The op works on each part alone.
    Parts,
    /// The op passes complex values on unseen.
    Carry,
    /// The op refuses complex inputs.
    Refuse,
    /// By this rule, written with ops on the parts.
    Rule(fn(&ComplexCall) -> Result<Vec<Value>>),
}

/// One sample call of an op, and what it must give where an independent source says so.
#[derive(Clone, Debug)]
pub struct Case {
    /// Inputs.
    pub inputs: Vec<Literal>,
    /// Attributes.
    pub attrs: Attrs,
    /// Expected outputs with their source: a manual's worked example, a table, hand arithmetic.
    pub expect: Option<(Vec<Literal>, &'static str)>,
    /// False where the sample sits on a kink or is otherwise unfit for finite differences.
    pub smooth: bool,
}
impl Case {
    /// A sample without a stated answer.
    pub fn new(inputs: Vec<Literal>, attrs: Attrs) -> Case {
        Case { inputs, attrs, expect: None, smooth: true }
    }
    /// States the answer and where it comes from.
    pub fn expect(mut self, outputs: Vec<Literal>, source: &'static str) -> Case {
        self.expect = Some((outputs, source));
        self
    }
    /// Excludes the sample from finite differences.
    pub fn kinked(mut self) -> Case {
        self.smooth = false;
        self
    }
}

/// One row of the op table.
pub struct Op {
    /// The one spelling: text form, Rust method, Python function.
    pub name: &'static str,
    /// What it computes, in a sentence or two.
    pub doc: &'static str,
    /// Its attributes, in order.
    pub attrs: &'static [(&'static str, AttrKind)],
    /// Types of the results, or why the inputs do not fit.
    pub infer: fn(&Call) -> Result<Types>,
    /// What it computes.
    pub meaning: Meaning,
    /// How it is differentiated.
    pub grad: Grad,
    /// How it is batched.
    pub batch: Batch,
    /// What `autocast` does with its inputs.
    pub autocast: Autocast,
    /// Whether it is linear in its float inputs, taken together: it commutes with sums and real factors.
    pub linear: bool,
    /// What it does with complex inputs.
    pub complex: OnComplex,
    /// What it does beyond computing its results.
    pub effect: Effect,
    /// How it may be cut over a mesh.
    pub shard: Shard,
    /// Inputs in each of which alone it is linear: a product in both, a quotient in the first.
    pub linear_in: &'static [usize],
    /// The attributes of the same call on parts, where they state sizes.
    pub resize: Option<Resize>,
    /// The same call on a part of the dimension along which another input states positions.
    pub on_part: Option<OnPart>,
    /// How ranges of its result are computed, where these depend on positions alone: ranks do not compute the whole.
    pub generate: Option<Generate>,
    /// Samples and worked examples.
    pub cases: fn() -> Vec<Case>,
}

/// What an op does beyond computing its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: passes may merge, move and drop it.
    None,
    /// Other processes see it. Such ops run one after the other in program order, and two of them stay two even if
    /// they look alike.
    Ordered,
    /// It starts something that continues while the rest is computed: it runs as soon as its inputs exist.
    Starts,
    /// Both: other processes see in which order such ops and those of [`Effect::Ordered`] are started.
    StartsInOrder,
    /// [`Effect::Ordered`] if the attribute [`ORDERED`] is true.
    Stated,
}

/// The attribute of an op whose calls state whether they are ordered.
pub const ORDERED: &str = "ordered";

impl Op {
    /// What a row need not say. It must say `name`, `doc`, `infer` and `meaning`; unless it is a composite, it must
    /// say `grad`.
    pub const DEFAULT: Op = Op {
        name: "",
        doc: "",
        attrs: &[],
        infer: |_| Err(Error::bug("the row has no type rule")),
        meaning: Meaning::Kernel(|_, _| Err(Error::bug("the row has no meaning"))),
        grad: Grad::Expand,
        batch: Batch::Auto,
        autocast: Autocast::Promote,
        linear: false,
        complex: OnComplex::Auto,
        effect: Effect::None,
        shard: Shard::Auto,
        linear_in: &[],
        resize: None,
        on_part: None,
        generate: None,
        cases: Vec::new,
    };

    /// Checks the attributes against the row and infers the result types.
    pub fn check(&self, call: &Call) -> Result<Types> {
        for (name, kind) in self.attrs {
            match call.attrs.get(name) {
                Some(a) if a.kind() == *kind => {}
                Some(a) => {
                    let e = format!("attribute {name} must be {kind:?}, not {a:?}");
                    return Err(Error::value(e).in_op(self.name));
                }
                None => return Err(Error::value(format!("attribute {name} is missing")).in_op(self.name)),
            }
        }
        if let Some((name, _)) = call.attrs.iter().find(|(n, _)| !self.attrs.iter().any(|(m, _)| m == n)) {
            return Err(Error::value(format!("there is no attribute {name}")).in_op(self.name));
        }
        // Type rules may multiply the sizes of an input without fear.
        call.types.iter().try_for_each(|t| t.check_size("an input")).map_err(|e| e.in_op(self.name))?;
        let is_real =
            matches!(self.meaning, Meaning::Scalar(_) | Meaning::View(_) | Meaning::Reduce(_) | Meaning::Kernel(_));
        if let Some(t) = call.types.iter().find(|t| is_real && t.dtype.is_complex()) {
            return Err(Error::dtype(format!("not defined for {}", t.dtype)).in_op(self.name));
        }
        let outs = (self.infer)(call).map_err(|e| e.in_op(self.name))?;
        self.check_parts(call).map_err(|e| e.in_op(self.name))?;
        if let Some(t) = outs.iter().find(|t| is_real && t.dtype.is_complex()) {
            return Err(Error::dtype(format!("does not give {}", t.dtype)).in_op(self.name));
        }
        outs.iter().try_for_each(|t| t.check_size("a result")).map_err(|e| e.in_op(self.name))?;
        Ok(outs)
    }

    /// Fails if a composite consists of ops that do not compute in fp8, which its own
    /// type rule may not know.
    fn check_parts(&self, call: &Call) -> Result<()> {
        let Meaning::Composite(expand) = self.meaning else { return Ok(()) };
        if !call.types.iter().any(|t| t.dtype.is_f8()) {
            return Ok(());
        }
        let site = crate::Site::here();
        let args: Vec<Value> = call.types.iter().map(|t| Value::placeholder("", t.clone(), site)).collect();
        expand(call, &args).map(drop)
    }

    /// True if a value of this op is no more than another view of its input.
    pub fn is_view(&self) -> bool {
        matches!(self.meaning, Meaning::View(_))
    }
    /// The elementwise meaning, if it has one.
    pub fn scalar(&self) -> Option<&Scalar> {
        if let Meaning::Scalar(s) = &self.meaning { Some(s) } else { None }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
/// Rows are compared by address: a name stands for one row.
impl PartialEq for Op {
    fn eq(&self, other: &Op) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Op {}

/// A value given from outside: an argument of a flat graph. Attributes: `dtype`, `shape`, `name`.
pub static INPUT: Op = Op {
    name: "input",
    doc: "A value given when the graph is run.",
    attrs: &[("dtype", AttrKind::DType), ("shape", AttrKind::Ints), ("name", AttrKind::Str)],
    infer: |c| {
        c.arity(0)?;
        let shape: Shape = c.attrs.sizes("shape")?.into_iter().collect();
        Ok(SmallVec::from_buf([Type::new(c.attrs.dtype("dtype")?, shape)]))
    },
    meaning: Meaning::Input,
    grad: Grad::Zero,
    ..Op::DEFAULT
};

/// A constant baked into the graph. Attribute: `value`.
pub static CONST: Op = Op {
    name: "const",
    doc: "A constant.",
    attrs: &[("value", AttrKind::Literal)],
    infer: |c| {
        c.arity(0)?;
        let v = c.attrs.literal("value")?;
        Ok(SmallVec::from_buf([Type::new(v.dtype(), v.shape().clone())]))
    },
    meaning: Meaning::Const,
    grad: Grad::Zero,
    cases: || vec![Case::new(vec![], Attrs::new().with("value", Attr::Literal(Literal::scalar(1.5f32))))],
    ..Op::DEFAULT
};

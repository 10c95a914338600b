//! `Rnn`, `Lstm`, `Gru`: layers that read a sequence step by step. Each direction of a layer is
//! one `scan` in the graph, of any length.

use super::rows::{Parameter, Start, layer};
use crate::{Dropout, Entry, Layer, Module, Visitor, join};
use tensor::control::{ScanOptions, scan_with};
use tensor::{DType, Error, Result, Site, Tensor, Variable};

/// Shape of a recurrent layer.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrentOptions {
    /// Layers on top of each other.
    pub layers: usize,
    /// Sequences are `[N, T, inputs]` instead of `[T, N, inputs]`.
    pub batch_first: bool,
    /// With biases.
    pub bias: bool,
    /// Bidirectional: results are twice as wide, those of the backward direction last.
    pub bidirectional: bool,
    /// Probability of dropout between the layers, in training.
    pub dropout: f64,
}
impl Default for RecurrentOptions {
    fn default() -> RecurrentOptions {
        let RnnSettings { num_layers: layers, batch_first, bias, bidirectional, dropout, .. } =
            RnnSettings::new(0usize, 0usize);
        RecurrentOptions { layers, batch_first, bias, bidirectional, dropout }
    }
}

macro_rules! settings {
    ($name:ident, $cell:ident $(, $(#[doc = $about:literal])* $more:ident)?) => {
        layer! {
            $name {
                /// Size of an element of the sequence.
                input_size: usize;
                /// Size of the state.
                hidden_size: usize;
                ..
                /// Layers on top of each other.
                num_layers: usize = 1;
                /// With biases.
                bias: bool = true;
                /// Sequences are `[N, T, inputs]` instead of `[T, N, inputs]`.
                batch_first: bool = false;
                /// Probability of dropout between the layers, in training.
                dropout: f64 = 0.0;
                /// Bidirectional: results are twice as wide, those of the backward direction last.
                bidirectional: bool = false;
                $($(#[doc = $about])* $more: usize = 0;)?
            }
        }
        impl $name {
            fn parameters(&self) -> Result<Vec<Parameter>> {
                let projection = [0usize $(, self.$more)?].into_iter().max().filter(|n| *n > 0);
                Ok(parameters(Cell::$cell, self.input_size, self.hidden_size, projection, &RecurrentOptions {
                    layers: self.num_layers,
                    batch_first: self.batch_first,
                    bias: self.bias,
                    bidirectional: self.bidirectional,
                    dropout: self.dropout,
                }))
            }
        }
    };
}
settings!(RnnSettings, Tanh);
settings!(GruSettings, Gru);
settings!(
    LstmSettings,
    Lstm,
    /// Size that the visible state is projected to (Python only); 0 for none.
    proj_size
);

/// The end of the names of a direction's parameters: `l0`, or `l0_reverse`.
fn suffix(layer: usize, is_reverse: bool) -> String {
    format!("l{layer}{}", if is_reverse { "_reverse" } else { "" })
}
/// The parameters of each direction of each layer: two weights, two biases, and the projection where there is one.
fn parameters(
    cell: Cell,
    inputs: usize,
    hidden: usize,
    projection: Option<usize>,
    options: &RecurrentOptions,
) -> Vec<Parameter> {
    let (start, rows, seen) = (Start::by_inputs(hidden), cell.gates() * hidden, projection.unwrap_or(hidden));
    let ways = if options.bidirectional { 2 } else { 1 };
    let way = |l: usize, is_reverse: bool| {
        let width = if l == 0 { inputs } else { ways * seen };
        let new =
            |name: &str, shape: &[usize]| Parameter::new(format!("{name}_{}", suffix(l, is_reverse)), shape, start);
        let mut all = vec![new("weight_ih", &[rows, width]), new("weight_hh", &[rows, seen])];
        all.extend(["bias_ih", "bias_hh"].map(|name| new(name, &[rows]).only_if(options.bias)));
        all.extend(projection.map(|n| new("weight_hr", &[n, hidden])));
        all
    };
    (0..options.layers * ways).flat_map(|i| way(i / ways, i % ways == 1)).collect()
}

/// The next state from the input's part of the gates, the recurrent weights and the state.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Tanh,
    Lstm,
    Gru,
}
impl Cell {
    /// Parts the weights consist of.
    fn gates(self) -> usize {
        match self {
            Cell::Tanh => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }
    /// Tensors the state consists of.
    fn states(self) -> usize {
        if matches!(self, Cell::Lstm) { 2 } else { 1 }
    }
    /// True if both biases are added to the same thing, so that one addition for all steps does.
    fn adds_biases(self) -> bool {
        !matches!(self, Cell::Gru)
    }
    /// The next state, its visible part first.
    fn step(self, x: &Tensor, state: &[Tensor], weight: &Tensor, bias: Option<&Tensor>) -> Vec<Tensor> {
        let h = state[0].linear(weight, None);
        let parts = |t: &Tensor| t.chunk(self.gates(), -1);
        // The parts are added one by one: then the whole cell is one loop over the state.
        match self {
            Cell::Tanh => vec![(x + h).tanh()],
            Cell::Lstm => {
                let gates: Vec<Tensor> = parts(x).iter().zip(parts(&h)).map(|(x, h)| x + h).collect();
                let [i, f, g, o] = gates.as_slice() else { return gates };
                let c = f.sigmoid() * &state[1] + i.sigmoid() * g.tanh();
                vec![o.sigmoid() * c.tanh(), c]
            }
            Cell::Gru => {
                let (x, mut h) = (parts(x), parts(&h));
                if let Some(b) = bias {
                    h = h.iter().zip(parts(b)).map(|(h, b)| h + b).collect();
                }
                let ([xr, xz, xn], [hr, hz, hn]) = (x.as_slice(), h.as_slice()) else { return x };
                let (r, z) = ((xr + hr).sigmoid(), (xz + hz).sigmoid());
                let n = (xn + r * hn).tanh();
                vec![&n + z * (&state[0] - &n)]
            }
        }
    }
}

/// Parameters of one direction of one layer, and the end of their names: `l0`, or `l0_reverse`.
#[derive(Debug)]
struct Weights {
    suffix: String,
    input: Variable,
    state: Variable,
    biases: Option<[Variable; 2]>,
}

/// Layers on top of each other, of any cell.
#[derive(Debug)]
struct Stack {
    cell: Cell,
    hidden: usize,
    batch_first: bool,
    /// One direction or two for each layer.
    layers: Vec<Vec<Weights>>,
    dropout: Dropout,
}
impl Stack {
    fn new(cell: Cell, inputs: usize, hidden: usize, options: RecurrentOptions) -> Result<Stack> {
        if hidden == 0 || options.layers == 0 {
            let e = format!("{} layers of {hidden} cells: both must be at least 1", options.layers);
            return Err(Error::value(e).in_op("recurrent"));
        }
        if !(0.0..=1.0).contains(&options.dropout) || (options.dropout > 0.0 && options.layers == 1) {
            let e = format!("dropout of {} between {} layers", options.dropout, options.layers);
            return Err(Error::value(format!("{e}: it must be a probability, and needs at least 2")).in_op("recurrent"));
        }
        let ways = if options.bidirectional { 2 } else { 1 };
        let mut layers: Vec<Vec<Weights>> = (0..options.layers).map(|_| Vec::new()).collect();
        for (i, own) in parameters(cell, inputs, hidden, None, &options).chunks(4).enumerate() {
            layers[i / ways].push(Weights {
                suffix: suffix(i / ways, i % ways == 1),
                input: own[0].variable()?,
                state: own[1].variable()?,
                biases: if options.bias { Some([own[2].variable()?, own[3].variable()?]) } else { None },
            });
        }
        let dropout = Dropout::new(options.dropout);
        Ok(Stack { cell, hidden, batch_first: options.batch_first, layers, dropout })
    }

    fn run(&self, x: &Tensor, lengths: Option<&Tensor>, state: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
        let [a, b, _] = x.dims()?;
        let (rows, steps) = if self.batch_first { (a, b) } else { (b, a) };
        let inside = lengths.map(|l| within(l, rows, steps)).transpose()?;
        let start = self.start(x, rows, state)?;
        let mut y = if self.batch_first { x.transpose(0, 1) } else { x.clone() };
        let mut ends = vec![Vec::new(); start.len()];
        for (l, layer) in self.layers.iter().enumerate() {
            let below = if l == 0 { y } else { self.dropout.forward(&y) };
            let mut seen = Vec::new();
            for (w, weights) in layer.iter().enumerate() {
                let at = (l * layer.len() + w) as i64;
                let from: Vec<Tensor> = start.iter().map(|s| s.select(0, at)).collect();
                let (visible, last) = self.pass(&below, inside.as_ref(), &from, weights, w == 1)?;
                seen.push(visible);
                ends.iter_mut().zip(last).for_each(|(e, s)| e.push(s));
            }
            y = if seen.len() == 1 { seen.swap_remove(0) } else { Tensor::concat(&seen, -1) };
        }
        let y = if self.batch_first { y.transpose(0, 1) } else { y };
        Ok((y, ends.iter().map(|e| Tensor::stack(e, 0)).collect()))
    }

    /// The state to begin with, checked.
    fn start(&self, x: &Tensor, rows: usize, state: Option<&[Tensor]>) -> Result<Vec<Tensor>> {
        let shape = [self.layers.iter().map(Vec::len).sum(), rows, self.hidden];
        let Some(state) = state else {
            return Ok(vec![Tensor::full_of(shape, 0.0, x.dtype()?); self.cell.states()]);
        };
        if state.len() != self.cell.states() {
            let e = format!("the state consists of {} tensors, not {}", self.cell.states(), state.len());
            return Err(Error::value(e));
        }
        for s in state {
            if s.shape()?.dims() != shape {
                return Err(Error::shape(format!("the state must be {shape:?}, not {:?}", s.shape()?.dims())));
            }
        }
        Ok(state.to_vec())
    }

    /// One direction over the steps `[T, N, width]`: the hidden state at each, and the last state.
    fn pass(
        &self,
        x: &Tensor,
        inside: Option<&Tensor>,
        from: &[Tensor],
        weights: &Weights,
        is_reverse: bool,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let biases = weights.biases.as_ref().map(|b| b.each_ref().map(Variable::tensor));
        let (of_input, of_state) = match biases {
            Some([i, s]) if self.cell.adds_biases() => (Some(i + s), None),
            Some([i, s]) => (Some(i), Some(s)),
            None => (None, None),
        };
        // The inputs' part of all steps at once: one large product instead of many small ones.
        let mut rows = vec![x.linear(&weights.input.tensor(), of_input.as_ref())];
        rows.extend(inside.cloned());
        let weight = weights.state.tensor();
        let step = |state: &[Tensor], row: &[Tensor]| {
            let next = self.cell.step(&row[0], state, &weight, of_state.as_ref());
            let Some(inside) = row.get(1) else { return Ok((next.clone(), vec![next[0].clone()])) };
            let visible = Tensor::where_(inside, &next[0], 0.0);
            let kept = next.iter().zip(state).map(|(n, s)| Tensor::where_(inside, n, s)).collect();
            Ok((kept, vec![visible]))
        };
        // Backward, the padding of a sequence comes first and leaves the state as it is.
        let (last, mut seen) = scan_with(ScanOptions { reverse: is_reverse, length: None }, step, from, &rows)?;
        Ok((seen.swap_remove(0), last))
    }
}
/// Whether each step `[T, N, 1]` is within its sequence.
fn within(lengths: &Tensor, rows: usize, steps: usize) -> Result<Tensor> {
    let (shape, dtype) = (lengths.shape()?, lengths.dtype()?);
    if shape.dims() != [rows] || dtype != DType::I64 {
        return Err(Error::shape(format!("lengths must be i64[{rows}], not {dtype}{:?}", shape.dims())));
    }
    Ok(Tensor::iota(steps, DType::I64).unsqueeze(-1).lt(lengths).unsqueeze(-1))
}
impl Module for Stack {
    fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
        for weights in self.layers.iter().flatten() {
            let mut show = |name: &str, v: &Variable| {
                visitor.entry(&join(path, &format!("{name}_{}", weights.suffix)), Entry::Parameter(v));
            };
            show("weight_ih", &weights.input);
            show("weight_hh", &weights.state);
            if let Some([i, h]) = &weights.biases {
                show("bias_ih", i);
                show("bias_hh", h);
            }
        }
        self.dropout.visit(path, visitor);
    }
}

macro_rules! recurrent {
    ($name:ident, $cell:ident, $label:literal, $(#[$doc:meta])*) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Stack);
        impl $name {
            /// One layer with biases, for sequences `[T, N, inputs]`; starts as in PyTorch.
            pub fn new(inputs: usize, hidden: usize) -> Result<$name> {
                $name::with(inputs, hidden, RecurrentOptions::default())
            }
            /// With more layers, bidirectional, with dropout, without biases, or with the batch first.
            pub fn with(inputs: usize, hidden: usize, options: RecurrentOptions) -> Result<$name> {
                Stack::new(Cell::$cell, inputs, hidden, options).map($name)
            }
            /// The last layer's hidden state at every step, and the final state of all layers, each
            /// tensor of it `[layers, N, hidden]`. Bidirectional: `[2 layers, N, hidden]`, each
            /// layer's backward direction after its forward one. Without `state` it starts with zeros.
            #[track_caller]
            pub fn run(&self, x: &Tensor, state: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
                let site = Site::here();
                site.scope(|| self.0.run(x, None, state)).map_err(|e| e.in_op($label).at(site))
            }
            /// As `run`, for sequences of the given `lengths` (`i64[N]`) that are padded at the
            /// end: results after a sequence's end are zero, and its last state is that of its own
            /// last step (PyTorch's packed sequences, in any order).
            #[track_caller]
            pub fn run_lengths(
                &self,
                x: &Tensor,
                lengths: &Tensor,
                state: Option<&[Tensor]>,
            ) -> Result<(Tensor, Vec<Tensor>)> {
                let site = Site::here();
                site.scope(|| self.0.run(x, Some(lengths), state)).map_err(|e| e.in_op($label).at(site))
            }
        }
        impl Module for $name {
            fn visit(&self, path: &str, visitor: &mut dyn Visitor) {
                self.0.visit(path, visitor);
            }
        }
        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                self.run(x, None).map(|(y, _)| y).into()
            }
        }
    };
}
recurrent!(Rnn, Tanh, "rnn",
    /// Elman's recurrent network: h' = tanh(W x + b + U h + c).
);
recurrent!(Lstm, Lstm, "lstm",
    /// Long short-term memory (Hochreiter and Schmidhuber 1997); its state is `[h, c]`.
    ///
    /// ```
    /// # use talweg_nn::{Lstm, RecurrentOptions};
    /// # use tensor::Tensor;
    /// let options = RecurrentOptions { layers: 2, bidirectional: true, batch_first: true, ..Default::default() };
    /// let lstm = Lstm::with(3, 5, options).unwrap();
    /// let (y, state) = lstm.run(&Tensor::ones([4, 7, 3]), None).unwrap();
    /// assert_eq!(y.dims().unwrap(), [4, 7, 10]);
    /// assert_eq!(state[1].dims().unwrap(), [4, 4, 5]);
    /// ```
);
recurrent!(Gru, Gru, "gru",
    /// Gated recurrent unit (Cho and others 2014), PyTorch's form with the reset gate after the product.
);

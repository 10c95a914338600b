//! LSTM, GRU and RNN: the products with the input at once, then a scan over time.

use super::{Outs, Row, all, row};
use crate::run::Call;
use ir::{DType, Error, Result};
use tensor::Tensor;
use tensor::control::{ScanOptions, scan_with};

pub static ROWS: &[Row] = &[
    row("LSTM", 1, |c| recurrent(c, Kind::Lstm)),
    row("GRU", 1, |c| recurrent(c, Kind::Gru)),
    row("RNN", 1, |c| recurrent(c, Kind::Rnn)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lstm,
    Gru,
    Rnn,
}

/// An activation with its parameters.
#[derive(Clone)]
struct Activation {
    name: String,
    alpha: f64,
    beta: f64,
}

impl Activation {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let (a, b) = (self.alpha, self.beta);
        Ok(match self.name.to_ascii_lowercase().as_str() {
            "sigmoid" => x.sigmoid(),
            "tanh" => x.tanh(),
            "relu" => x.relu(),
            "affine" => x * a + b,
            "leakyrelu" => Tensor::where_(&x.lt(0), &(x * a), x),
            "thresholdedrelu" => Tensor::where_(&x.gt(a), x, &x.zeros_like()),
            "scaledtanh" => (x * b).tanh() * a,
            "hardsigmoid" => super::math::hard_sigmoid(x, a, b),
            "elu" => super::math::elu(x, a),
            "softsign" => x / (x.abs() + 1.0),
            "softplus" => super::math::softplus(x),
            n => return Err(Error::value(format!("there is no activation {n:?}"))),
        })
    }
}

/// One direction of a layer.
struct Cell {
    kind: Kind,
    /// Recurrent weights `[gates · H, H]`, and their biases.
    r: Tensor,
    rb: Option<Tensor>,
    peepholes: Option<Tensor>,
    activations: Vec<Activation>,
    clip: Option<f64>,
    hidden: usize,
    resets_first: bool,
    couples: bool,
}

impl Cell {
    fn clipped(&self, x: Tensor) -> Tensor {
        match self.clip {
            Some(c) => x.maximum(-c).minimum(c),
            None => x,
        }
    }
    fn activate(&self, i: usize, x: Tensor) -> Result<Tensor> {
        self.activations[i].apply(&self.clipped(x))
    }
    /// The next state from the input's part of the gates and the state.
    fn step(&self, x: &Tensor, state: &[Tensor]) -> Result<Vec<Tensor>> {
        let (h, n) = (&state[0], self.hidden);
        let gate = |t: &Tensor, i: usize| t.narrow(1, i * n, n);
        match self.kind {
            Kind::Rnn => Ok(vec![self.activate(0, x + h.matmul(self.r.t()))?]),
            Kind::Lstm => {
                let c = &state[1];
                let g = x + h.matmul(self.r.t());
                let peep = |i: usize, t: Tensor, c: &Tensor| match &self.peepholes {
                    Some(p) => t + p.narrow(0, i * n, n) * c,
                    None => t,
                };
                // The order of the gates is input, output, forget, cell.
                let i = self.activate(0, peep(0, gate(&g, 0), c))?;
                let f = if self.couples { -&i + 1.0 } else { self.activate(0, peep(2, gate(&g, 2), c))? };
                let new = self.activate(1, gate(&g, 3))?;
                let c = f * c + i * new;
                let o = self.activate(0, peep(1, gate(&g, 1), &c))?;
                let h = o * self.activations[2].apply(&c)?;
                Ok(vec![h, c])
            }
            Kind::Gru => {
                // The order of the gates is update, reset, hidden.
                let both = self.r.narrow(0, 0, 2 * n);
                let last = self.r.narrow(0, 2 * n, n);
                let g = x.narrow(1, 0, 2 * n) + h.matmul(both.t());
                let g = match &self.rb {
                    Some(b) => g + b.narrow(0, 0, 2 * n),
                    None => g,
                };
                let z = self.activate(0, gate(&g, 0))?;
                let r = self.activate(0, gate(&g, 1))?;
                let bias = self.rb.as_ref().map(|b| b.narrow(0, 2 * n, n));
                let with = |t: Tensor| if let Some(b) = &bias { t + b } else { t };
                let part =
                    if self.resets_first { r * with(h.matmul(last.t())) } else { with((r * h).matmul(last.t())) };
                let new = self.activate(1, gate(x, 2) + part)?;
                Ok(vec![(-&z + 1.0) * new + z * h])
            }
        }
    }
}

fn recurrent(c: &Call<'_>, kind: Kind) -> Outs {
    let (mut x, w, r) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let is_batch_first = c.flag("layout");
    if is_batch_first {
        x = x.transpose(0, 1);
    }
    let ([time, batch, _], [directions, rows, _]) = (x.dims()?, w.dims()?);
    let (gates, states) = match kind {
        Kind::Lstm => (4, 2),
        Kind::Gru => (3, 1),
        Kind::Rnn => (1, 1),
    };
    let hidden = rows / gates;
    let dtype = x.dtype()?;
    let direction = c.text("direction", "forward").to_ascii_lowercase();
    let bias = c.opt(3)?;
    let lengths = match c.opt(4)? {
        Some(l) => {
            let is_full = Call::is_known(&l) && c.ints(4)?.iter().all(|&n| n == time as i64);
            (!is_full).then(|| l.cast(DType::I64).reshape([batch, 1]))
        }
        None => None,
    };
    let activations = activations(c, kind, directions);
    let mut ys = Vec::new();
    let mut finals: Vec<Vec<Tensor>> = vec![Vec::new(); states];
    for d in 0..directions {
        let part = |t: &Tensor| t.narrow(0, d, 1).squeeze(0);
        let b = bias.as_ref().map(part);
        let (wb, rb) = match &b {
            Some(b) => (Some(b.narrow(0, 0, rows)), Some(b.narrow(0, rows, rows))),
            None => (None, None),
        };
        // A GRU's last recurrent bias belongs to the reset; all others are added once.
        let (wb, rb) = match (kind, wb, rb) {
            (Kind::Gru, wb, rb) => (wb, rb),
            (_, Some(a), Some(b)) => (Some(a + b), None),
            (_, a, _) => (a, None),
        };
        let per = activations.len() / directions;
        let cell = Cell {
            kind,
            r: part(&r),
            rb,
            peepholes: if kind == Kind::Lstm { c.opt(7)?.as_ref().map(part) } else { None },
            activations: activations[d * per..(d + 1) * per].to_vec(),
            clip: c.maybe_float("clip"),
            hidden,
            resets_first: c.flag("linear_before_reset"),
            couples: c.flag("input_forget"),
        };
        let initial = |i: usize| -> Result<Tensor> {
            match c.opt(i)? {
                // Per example in the batch-first layout: [N, directions, H].
                Some(t) if is_batch_first => Ok(t.narrow(1, d, 1).squeeze(1)),
                Some(t) => Ok(part(&t)),
                None => Ok(Tensor::zeros_of([batch, hidden], dtype)),
            }
        };
        let mut start = vec![initial(5)?];
        if kind == Kind::Lstm {
            start.push(initial(6)?);
        }
        let projected = x.matmul(part(&w).t());
        let projected = if let Some(b) = wb { projected + b } else { projected };
        let reverse = d == 1 || direction == "reverse";
        let (y, last) = run(&cell, &projected, &start, lengths.as_ref(), reverse, time)?;
        ys.push(y);
        finals.iter_mut().zip(last).for_each(|(f, t)| f.push(t));
    }
    let axis = if is_batch_first { 1 } else { 0 };
    let y = Tensor::stack(&ys, 1);
    let y = if is_batch_first { y.permute(&[2, 0, 1, 3]) } else { y };
    all([vec![y], finals.iter().map(|f| Tensor::stack(f, axis)).collect()].concat())
}

/// All steps of one direction: the outputs and the last state.
fn run(
    cell: &Cell,
    x: &Tensor,
    start: &[Tensor],
    lengths: Option<&Tensor>,
    reverse: bool,
    time: usize,
) -> Result<(Tensor, Vec<Tensor>)> {
    if time == 1 && lengths.is_none() {
        let next = cell.step(&x.squeeze(0), start)?;
        return Ok((next[0].unsqueeze(0), next));
    }
    let steps = Tensor::iota(time, DType::I64);
    let body = |state: &[Tensor], row: &[Tensor]| {
        let next = cell.step(&row[0], state)?;
        let Some(n) = lengths else { return Ok((next.clone(), vec![next[0].clone()])) };
        // Beyond an example's length its state stays, and its output is zero.
        let is_on = row[1].lt(n);
        let kept = next.iter().zip(state).map(|(a, b)| Tensor::where_(&is_on, a, b)).collect();
        let y = Tensor::where_(&is_on, &next[0], &next[0].zeros_like());
        Ok((kept, vec![y]))
    };
    let options = ScanOptions { reverse, ..Default::default() };
    let (last, ys) = scan_with(options, body, start, &[x.clone(), steps])?;
    let y = ys.into_iter().next().ok_or_else(|| Error::bug("a scan without a result"))?;
    Ok((y, last))
}

fn activations(c: &Call<'_>, kind: Kind, directions: usize) -> Vec<Activation> {
    let default: &[&str] = match kind {
        Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        Kind::Gru => &["Sigmoid", "Tanh"],
        Kind::Rnn => &["Tanh"],
    };
    let names: Vec<String> = match c.texts("activations") {
        Some(n) if n.len() == default.len() * directions => n.to_vec(),
        _ => default.iter().map(|s| s.to_string()).cycle().take(default.len() * directions).collect(),
    };
    let (alphas, betas) = (c.float_list("activation_alpha"), c.float_list("activation_beta"));
    let at = |list: &Option<Vec<f32>>, i: usize| list.as_ref().and_then(|l| l.get(i)).map(|&v| f64::from(v));
    let usual = |name: &str| match name.to_ascii_lowercase().as_str() {
        "leakyrelu" => (0.01, 0.0),
        "hardsigmoid" => (0.2, 0.5),
        _ => (1.0, 0.0),
    };
    let make = |(i, name): (usize, String)| {
        let (alpha, beta) = usual(&name);
        Activation { alpha: at(&alphas, i).unwrap_or(alpha), beta: at(&betas, i).unwrap_or(beta), name }
    };
    names.into_iter().enumerate().map(make).collect()
}

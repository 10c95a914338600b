//! Transformations of Python functions: gradients, batching, control flow.
//!
//! The functions are traced: they are called with stand-ins for their tensors. What they raise goes
//! through Rust's code and comes out as it was.

use crate::convert::{Like, arg};
use crate::error::{OrRaise, carried};
use crate::error::{type_error, value_error};
use crate::site::here;
use crate::tensor::{PyTensor, wrap};
use crate::tree::{Tree, flatten, handles};
use ::tensor::control::{self, ScanOptions};
use ::tensor::{Draws, Result, Tensor, Variable, assignments, derivatives, vmap_drawing};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);
thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The number of the trace that is in progress on this thread; 0 is none.
pub fn current() -> u64 {
    CURRENT.get()
}
/// True while a function is called with stand-ins on this thread.
pub fn is_tracing() -> bool {
    current() > 0
}

/// Calls back into Python while tracing; what is raised is carried through.
pub fn traced<R>(f: impl FnOnce(Python<'_>) -> PyResult<R>) -> Result<R> {
    struct Leave(u64);
    impl Drop for Leave {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _leave = Leave(CURRENT.replace(NEXT.fetch_add(1, Ordering::Relaxed)));
    Python::attach(|py| f(py).map_err(carried))
}

/// Which handles name something else than the stand-ins they were made with. A leaf over a stand-in counts as the same.
pub fn written(py: Python<'_>, handles: &[Option<Py<PyTensor>>], stand_ins: &[Tensor]) -> Vec<usize> {
    let is_same = |now: &Tensor, then: &Tensor| match (now.value(), then.value()) {
        (Ok(a), Ok(b)) => {
            let is_leaf_over = a.node().op().is_some_and(|op| op.name == "leaf");
            a.is_same(b) || (is_leaf_over && a.node().inputs().iter().any(|i| i.is_same(b)))
        }
        _ => true,
    };
    let changed = |(i, (h, t)): (usize, (&Option<Py<PyTensor>>, &Tensor))| {
        let now = h.as_ref()?.bind(py).get().tensor();
        (!is_same(&now, t)).then_some(i)
    };
    handles.iter().zip(stand_ins).enumerate().filter_map(changed).collect()
}

/// A Python function with what it takes beside the tensors that are traced.
pub struct Function<'a> {
    f: &'a Bound<'a, PyAny>,
    /// Where the tensors are in its arguments.
    inputs: &'a Tree,
    /// Where they are in its result, once it was called.
    outputs: RefCell<Option<Tree>>,
    /// The variables that it assigns; their values come after its results.
    assigned: RefCell<Vec<Variable>>,
}

impl<'a> Function<'a> {
    /// Of a function whose positional arguments have this form.
    pub fn new(f: &'a Bound<'a, PyAny>, inputs: &'a Tree) -> Function<'a> {
        Function { f, inputs, outputs: RefCell::new(None), assigned: RefCell::default() }
    }
    /// Calls it. Assigning a variable is an error: the value would be that of a stand-in.
    pub fn call(&self, leaves: &[Tensor]) -> Result<Vec<Tensor>> {
        let (results, assigned) = assignments(|| self.call_once(leaves))?;
        if assigned.is_empty() {
            return Ok(results);
        }
        let e = "a variable is assigned inside of a function that is traced for each example, iteration or branch, such as \
                 the running statistics of a norm layer: call eval() of the module, or return the new value";
        traced(|py| Err(crate::error::trace_error(py, e)))
    }
    /// Calls it; the values of the variables that it assigns come after its results.
    fn call_assigning(&self, leaves: &[Tensor]) -> Result<Vec<Tensor>> {
        let (mut results, assigned) = assignments(|| self.call_once(leaves))?;
        let (variables, values): (Vec<_>, Vec<_>) = assigned.into_iter().unzip();
        results.extend(values);
        *self.assigned.borrow_mut() = variables;
        Ok(results)
    }
    fn call_once(&self, leaves: &[Tensor]) -> Result<Vec<Tensor>> {
        traced(|py| {
            let args = self.inputs.build(py, &mut leaves.iter().cloned())?;
            let before = handles(args.bind(py))?;
            let out = self.f.call1(args.bind(py).cast::<PyTuple>()?)?;
            if let Some(i) = written(py, &before, leaves).first() {
                let e = format!(
                    "tensor {i} of the arguments is changed in place by a function that is traced: return the new value"
                );
                return Err(crate::error::trace_error(py, &e));
            }
            let mut leaves = Vec::new();
            *self.outputs.borrow_mut() = Some(flatten(&out, &mut leaves)?);
            Ok(leaves)
        })
    }
    /// The result with these tensors in it.
    pub fn result(&self, py: Python<'_>, leaves: Vec<Tensor>) -> PyResult<Py<PyAny>> {
        match &*self.outputs.borrow() {
            Some(tree) => tree.build(py, &mut leaves.into_iter()),
            None => Err(value_error("the function was not called")),
        }
    }
}

/// The value of a function and its gradient with respect to some of its arguments: `(value,
/// gradients)`, or `((value, aux), gradients)`.
#[pyfunction]
fn value_and_grad(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: &Bound<'_, PyDict>,
    #[pyo3(from_py_with = arg)] argnums: Vec<isize>,
    #[pyo3(from_py_with = arg)] has_aux: bool,
) -> PyResult<(Py<PyAny>, Vec<Py<PyAny>>)> {
    let mut leaves = Vec::new();
    let mut chosen = Vec::new();
    for &n in &argnums {
        let i = if n < 0 { n + args.len() as isize } else { n };
        if i < 0 || i as usize >= args.len() {
            let e = format!("there is no argument {n}: {} were given", args.len());
            return Err(value_error(e));
        }
        chosen.push((i as usize, flatten(&args.get_item(i as usize)?, &mut leaves)?));
    }
    if leaves.is_empty() {
        return Err(type_error("there is no tensor in the arguments to differentiate for"));
    }
    let aux_tree: RefCell<Option<Tree>> = RefCell::new(None);
    let run = |xs: &[Tensor]| {
        traced(|py| {
            let mut list: Vec<Py<PyAny>> = args.iter().map(Bound::unbind).collect();
            let mut xs = xs.iter().cloned();
            for (i, tree) in &chosen {
                list[*i] = tree.build(py, &mut xs)?;
            }
            let out = f.call(PyTuple::new(py, list)?, Some(kwargs))?;
            let (y, aux) = if has_aux {
                out.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?
            } else {
                (out, py.None().into_bound(py))
            };
            let y = y.cast::<PyTensor>().map_err(|_| {
                type_error(format!("the function must return a tensor, not {}", crate::convert::type_name(&y)))
            })?;
            let mut more = Vec::new();
            *aux_tree.borrow_mut() = Some(flatten(&aux, &mut more)?);
            Ok((y.get().tensor(), more))
        })
    };
    let (y, grads, aux) = here(py).scope(|| derivatives::value_and_grad_aux(run)(&leaves)).or_raise(py)?;
    let mut grads = grads.into_iter();
    let grads = chosen.iter().map(|(_, tree)| tree.build(py, &mut grads)).collect::<PyResult<Vec<_>>>()?;
    let y = wrap(py, y)?.into_any();
    if !has_aux {
        return Ok((y, grads));
    }
    let tree = aux_tree.into_inner().unwrap_or(Tree::Other(py.None()));
    let aux = tree.build(py, &mut aux.into_iter())?;
    Ok((PyTuple::new(py, [y, aux])?.into_any().unbind(), grads))
}

/// The result of a function and how it changes as its arguments move along tangents.
#[pyfunction]
fn jvp(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    primals: &Bound<'_, PyTuple>,
    tangents: &Bound<'_, PyTuple>,
) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
    let (mut xs, mut vs) = (Vec::new(), Vec::new());
    let tree = flatten(primals, &mut xs)?;
    flatten(tangents, &mut vs)?;
    let g = Function::new(f, &tree);
    let (ys, dys) = here(py).scope(|| derivatives::jvp(|x| g.call(x), &xs, &vs)).or_raise(py)?;
    Ok((g.result(py, ys)?, g.result(py, dys)?))
}

/// The Jacobian of a function of one tensor, or its Hessian.
#[pyfunction]
fn jacobian(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    x: Like,
    #[pyo3(from_py_with = arg)] hessian: bool,
) -> PyResult<Py<PyTensor>> {
    let tree = Tree::Tuple(vec![Tree::Leaf], None);
    let one = |x: &Tensor| {
        let g = Function::new(f, &tree);
        let mut ys = g.call(std::slice::from_ref(x))?;
        if ys.len() == 1 {
            Ok(ys.remove(0))
        } else {
            Err(::tensor::Error::value(format!("the function returned {} tensors, not one", ys.len())))
        }
    };
    let site = here(py);
    let j = site.scope(|| if hessian { derivatives::hessian(one, &x.0) } else { derivatives::jacobian(one, &x.0) });
    wrap(py, j.or_raise(py)?)
}

/// A function applied to each member of a batch. `in_axes` has an axis for each argument, `None`
/// where all members share it.
#[pyfunction]
#[pyo3(signature = (f, args, in_axes, out_axes, randomness="different"))]
fn vmap(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    #[pyo3(from_py_with = arg)] in_axes: Vec<Option<i64>>,
    #[pyo3(from_py_with = arg)] out_axes: i64,
    #[pyo3(from_py_with = arg)] randomness: &str,
) -> PyResult<Py<PyAny>> {
    let draws = match randomness {
        "different" => Draws::Each,
        "same" => Draws::Same,
        "error" => Draws::Refused,
        _ => return Err(value_error("vmap: randomness must be \"error\", \"different\" or \"same\"")),
    };
    let mut leaves = Vec::new();
    let mut parts = Vec::new();
    let site = here(py);
    for (arg, axis) in args.iter().zip(&in_axes) {
        let Some(axis) = *axis else {
            parts.push(Tree::Other(arg.unbind()));
            continue;
        };
        let from = leaves.len();
        parts.push(flatten(&arg, &mut leaves)?);
        if axis != 0 {
            for t in &mut leaves[from..] {
                *t = site.scope(|| t.moveaxis(&[axis], &[0]));
            }
        }
    }
    if leaves.is_empty() {
        return Err(value_error("vmap: no argument has a tensor with a batch axis"));
    }
    let tree = Tree::Tuple(parts, None);
    let g = Function::new(f, &tree);
    let mut ys = site.scope(|| vmap_drawing(draws, |x| g.call(x), &leaves)).or_raise(py)?;
    if out_axes != 0 {
        ys.iter_mut().for_each(|t| *t = site.scope(|| t.moveaxis(&[0], &[out_axes])));
    }
    g.result(py, ys)
}

/// One of two functions, by the truth of a scalar; both are traced.
#[pyfunction]
#[pyo3(signature = (pred, then, otherwise, *operands))]
fn cond(
    py: Python<'_>,
    pred: Like,
    then: &Bound<'_, PyAny>,
    otherwise: &Bound<'_, PyAny>,
    operands: &Bound<'_, PyTuple>,
) -> PyResult<Py<PyAny>> {
    let mut leaves = Vec::new();
    let tree = flatten(operands, &mut leaves)?;
    let (yes, no) = (Function::new(then, &tree), Function::new(otherwise, &tree));
    let ys = here(py).scope(|| control::cond(&pred.0, |x| yes.call(x), |x| no.call(x), &leaves)).or_raise(py)?;
    yes.result(py, ys)
}

/// Repeats `body` while `test` holds; both take and `body` returns the carried value.
#[pyfunction]
#[pyo3(signature = (test, body, init, *, max_trips=0))]
fn while_loop(
    py: Python<'_>,
    test: &Bound<'_, PyAny>,
    body: &Bound<'_, PyAny>,
    init: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arg)] max_trips: usize,
) -> PyResult<Py<PyAny>> {
    let mut leaves = Vec::new();
    // The carried value is one argument, whatever it is made of.
    let tree = Tree::Tuple(vec![flatten(init, &mut leaves)?], None);
    let (t, b) = (Function::new(test, &tree), Function::new(body, &tree));
    let one = |x: &[Tensor]| {
        let mut ys = t.call(x)?;
        if ys.len() == 1 { Ok(ys.remove(0)) } else { Err(::tensor::Error::value("the test must return one boolean")) }
    };
    let ys = here(py).scope(|| control::while_loop_within(max_trips, one, |x| b.call(x), &leaves)).or_raise(py)?;
    b.result(py, ys)
}

/// `f(carry, x)` returns the next carry and a result, for each row of `xs`: the last carry and all
/// results.
#[pyfunction]
#[pyo3(signature = (f, init, xs=None, *, length=None, reverse=false))]
fn scan(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    init: &Bound<'_, PyAny>,
    xs: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arg)] length: Option<usize>,
    #[pyo3(from_py_with = arg)] reverse: bool,
) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
    let (mut start, mut rows) = (Vec::new(), Vec::new());
    let carry = flatten(init, &mut start)?;
    let row = xs.map_or(Ok(Tree::Other(py.None())), |xs| flatten(xs, &mut rows))?;
    let outs: RefCell<Option<(Tree, Tree)>> = RefCell::new(None);
    let step = |c: &[Tensor], x: &[Tensor]| {
        traced(|py| {
            let c = carry.build(py, &mut c.iter().cloned())?;
            let x = row.build(py, &mut x.iter().cloned())?;
            let out = f.call1((c, x))?;
            let pair = out.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>();
            let (c, y) = pair.map_err(|_| type_error("the function must return the carry and a result"))?;
            let (mut cs, mut ys) = (Vec::new(), Vec::new());
            let trees = (flatten(&c, &mut cs)?, flatten(&y, &mut ys)?);
            *outs.borrow_mut() = Some(trees);
            Ok((cs, ys))
        })
    };
    let options = ScanOptions { length, reverse };
    let (last, ys) = here(py).scope(|| control::scan_with(options, step, &start, &rows)).or_raise(py)?;
    let (c, y) = outs.into_inner().ok_or_else(|| value_error("the function was not called"))?;
    Ok((c.build(py, &mut last.into_iter())?, y.build(py, &mut ys.into_iter())?))
}

/// A function whose inner values are computed again for the gradient instead of being kept.
#[pyfunction]
#[pyo3(signature = (f, *args))]
fn checkpoint(py: Python<'_>, f: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
    let mut leaves = Vec::new();
    let tree = flatten(args, &mut leaves)?;
    let g = Function::new(f, &tree);
    let mut ys = here(py).scope(|| control::checkpoint(|x| g.call_assigning(x), &leaves)).or_raise(py)?;
    let variables = g.assigned.take();
    let values = ys.split_off(ys.len() - variables.len());
    for (v, value) in variables.iter().zip(values) {
        here(py).scope(|| v.assign(&value.detach())).or_raise(py)?;
    }
    g.result(py, ys)
}

/// A function with a custom gradient: `rule(inputs, outputs, gradients)` returns a gradient
/// for each input; all are lists of tensors.
#[pyfunction]
fn custom_gradient(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    rule: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
) -> PyResult<Py<PyAny>> {
    let mut leaves = Vec::new();
    let tree = flatten(args, &mut leaves)?;
    let g = Function::new(f, &tree);
    let back = |xs: &[Tensor], ys: &[Tensor], gs: &[Tensor]| {
        traced(|py| {
            let list = |ts: &[Tensor]| ts.iter().map(|t| wrap(py, t.clone())).collect::<PyResult<Vec<_>>>();
            let out = rule.call1((list(xs)?, list(ys)?, list(gs)?))?;
            let mut grads = Vec::new();
            flatten(&out, &mut grads)?;
            Ok(grads)
        })
    };
    let ys = here(py).scope(|| control::custom_gradient(|x| g.call(x), back, &leaves)).or_raise(py)?;
    g.result(py, ys)
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident)*) => {$( m.add_function(wrap_pyfunction!($f, m)?)?; )*};
    }
    add!(value_and_grad jvp jacobian vmap cond while_loop scan checkpoint custom_gradient);
    Ok(())
}

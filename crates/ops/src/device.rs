//! Which device computes: by name, in a scope, or for the whole program.
//!
//! Values stay on the device that computed them, and what uses them is computed there too. Values
//! on the host go wherever they are needed: what uses nothing else is computed on the device of the
//! scope in which it was asked for, wherever it is looked at.

use crate::Tensor;
use crate::view::reshape;
use ir::{Attrs, Buffer, Error, FlatNode, Graph, Result, Site, Type, Value};
use runtime::{Device, Engine, Program};
use std::cell::Cell;
use std::sync::{Arc, LazyLock, Mutex};

/// The engines opened so far; they live as long as the program.
static ENGINES: Mutex<Vec<&'static Engine>> = Mutex::new(Vec::new());

/// The device of `TALWEG_DEVICE`, or the CPU.
static DEFAULT: LazyLock<&'static Engine> = LazyLock::new(|| {
    let name = std::env::var("TALWEG_DEVICE").unwrap_or_else(|_| "cpu".to_string());
    engine_named(&name).unwrap_or_else(|e| {
        let why = Error { message: format!("{} (TALWEG_DEVICE is {name:?})", e.message), ..e };
        Box::leak(Box::new(Engine::new(Arc::new(Missing { name, why }))))
    })
});

thread_local! {
    static CURRENT: Cell<Option<&'static Engine>> = const { Cell::new(None) };
}

/// A device that could not be opened: whatever is asked of it fails with the reason.
struct Missing {
    name: String,
    why: Error,
}
impl Device for Missing {
    fn name(&self) -> &str {
        &self.name
    }
    fn claims(&self, _: &FlatNode, _: &[Type]) -> bool {
        false
    }
    fn compile(&self, _: Graph) -> Result<Arc<dyn Program>> {
        Err(self.why.clone())
    }
    fn place(&self, _: &Buffer) -> Result<Buffer> {
        Err(self.why.clone())
    }
}

/// The engine of the current device: of the innermost [`device`] scope, else of `TALWEG_DEVICE`,
/// else of the CPU.
pub fn engine() -> &'static Engine {
    CURRENT.get().unwrap_or_else(|| *DEFAULT)
}

/// The engine of a device, which is opened if it was not yet: `cpu`, `cuda:0`, `cuda:1`…
pub fn engine_named(name: &str) -> Result<&'static Engine> {
    let mut engines = ENGINES.lock().unwrap_or_else(|e| e.into_inner());
    // A kind of device alone is the first of its kind.
    let is_first = |own: &str| own.strip_suffix(":0") == Some(name) && !runtime::is_logical(own);
    let is_whole = |own: &str| name.strip_suffix(":0") == Some(own) && !runtime::is_logical(name);
    let is_named = |own: &str| own == name || is_first(own) || is_whole(own);
    if let Some(e) = engines.iter().find(|e| is_named(e.device().name())) {
        return Ok(e);
    }
    let device = runtime::open(name)?;
    let engine: &'static Engine =
        Box::leak(Box::new(Engine::among(device, engine_named).with_patterns(crate::patterns())));
    engines.push(engine);
    Ok(engine)
}

/// Makes a device the current one of this thread (`None`: that of the program again), and answers
/// which one had been made so before. A scope is better: see [`device`].
pub fn set_device(name: Option<&str>) -> Result<Option<&'static str>> {
    let engine = name.map(engine_named).transpose()?;
    Ok(enter(engine).map(|e| e.device().name()))
}

/// Makes an engine the current one, and lets it compute what is made from now on.
fn enter(engine: Option<&'static Engine>) -> Option<&'static Engine> {
    ir::set_place(engine.map_or(0, runtime::place_of));
    CURRENT.replace(engine)
}

/// The device that this thread has made the current one, if it has.
pub fn chosen_device() -> Option<&'static str> {
    CURRENT.get().map(|e| e.device().name())
}

/// Runs `f` with another current device. What `f` asks for is computed there, even if the value is read
/// later. In a jitted function or a session's graph it is a constraint: these ops run on that device, and what they
/// need is sent there. `cpu` is any of the logical devices `cpu:0`, `cpu:1`…, where there are some
/// ([`runtime::set_logical_devices`]).
///
/// ```
/// # use talweg_ops::{Tensor, device};
/// let y = device("cpu", || Tensor::from([1.0f32, 2.0]).exp().sum(..).item::<f32>()).unwrap().unwrap();
/// assert!((y - 10.107).abs() < 1e-3);
/// assert!(device("abacus", || ()).unwrap_err().to_string().contains("no device \"abacus\""));
/// ```
#[track_caller]
pub fn device<R>(name: &str, f: impl FnOnce() -> R) -> Result<R> {
    struct Restore(Option<&'static Engine>, u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            enter(self.0);
            ir::set_place(self.1);
        }
    }
    let site = Site::here();
    let engine = engine_named(name).map_err(|e| e.at(site))?;
    let place = ir::set_place(0);
    let _restore = Restore(enter(Some(engine)), place);
    Ok(f())
}

/// Runs `f` so that what it asks for is computed on the device that computes `x`, in a jitted function or a session's
/// graph. A variable is colocated with its updates and the optimizer's state without it.
///
/// ```
/// # use talweg_ops::{Tensor, colocate_with};
/// let x = Tensor::from([1.0f32, 2.0]);
/// let y = colocate_with(&x, || x.exp()).unwrap();
/// assert_eq!(y.shape().unwrap().dims(), [2]);
/// ```
pub fn colocate_with<R>(x: &Tensor, f: impl FnOnce() -> R) -> Result<R> {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            leave_colocation(self.0);
        }
    }
    let _restore = Restore(enter_colocation(x)?);
    Ok(f())
}

/// Begins what [`colocate_with`] does, for languages whose scopes are not closures; returns what
/// [`leave_colocation`] takes.
pub fn enter_colocation(x: &Tensor) -> Result<u32> {
    Ok(ir::set_place(runtime::place_with(x.value()?)))
}

/// Ends it.
pub fn leave_colocation(before: u32) {
    ir::set_place(before);
}

impl Tensor {
    /// The same value in the memory of a device (`cpu`, `cuda:0`…), computed first if it was not
    /// yet; gradients flow through. What uses it is computed there.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).to("cpu").to_vec::<i32>().unwrap(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn to(&self, device: &str) -> Tensor {
        self.then(|t| {
            let engine = engine_named(device).map_err(|e| e.in_op("to"))?;
            let source = self.value()?;
            if source.node().is_symbolic() {
                // Where it is computed is decided when it is fed.
                return Ok(self.clone());
            }
            self.eval()?;
            let Some(buffer) = source.buffer() else { return Err(Error::bug("evaluated, but without a value")) };
            let placed = engine.device().place(&buffer).map_err(|e| e.in_op("to"))?;
            if !source.node().needs_grad() {
                return Ok(Value::computed(source.ty().clone(), placed, false, source.node().site()).into());
            }
            let same = Tensor::apply1(&reshape::OP, &[self], Attrs::new().with("shape", &t.shape));
            same.value()?.node().fill(0, placed);
            Ok(same)
        })
    }
    /// The name of the device its value is on; `cpu` for the host, and for what is not computed yet.
    /// A view is where the value is that it looks at.
    pub fn device(&self) -> Result<String> {
        let mut value = self.value()?.clone();
        loop {
            match value.buffer() {
                Some(Buffer::Device(s)) => return Ok(s.device().to_string()),
                Some(Buffer::Host(_)) => return Ok("cpu".to_string()),
                None => {}
            }
            let node = value.node();
            let Some(under) = node.op().filter(|op| op.is_view()).and_then(|_| node.inputs().first().cloned()) else {
                return Ok("cpu".to_string());
            };
            value = under;
        }
    }
}

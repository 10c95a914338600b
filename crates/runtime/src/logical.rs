//! Logical devices: the CPU, divided into `cpu:0`, `cpu:1`…, each with its share of threads and its limit of memory.
//!
//! A value on a logical device lies in host memory. It is charged to the device that holds it: one that was sent is
//! charged to both, though they read the same bytes.

use crate::{Device, DeviceShare, Memory, Program, Speed, Work};
use ir::{Buffer, Error, ErrorKind, FlatNode, Graph, Literal, Result, Storage, Type};
use parking_lot::{Mutex, RwLock};
use passes::Watch;
use std::any::Any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// One logical device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogicalDevice {
    /// Bytes that programs on it may use; `None`: not limited.
    pub memory_limit: Option<usize>,
    /// Its threads; `None`: an equal share.
    pub threads: Option<usize>,
}

/// The kind of device that can be divided.
const KIND: &str = "cpu";
/// How many logical devices there may be: placement keeps them as bits of a word.
const DEVICES_MAX: usize = 64;

static CONFIGURED: LazyLock<RwLock<Vec<LogicalDevice>>> = LazyLock::new(|| RwLock::new(of_environment()));
static REVISION: AtomicU64 = AtomicU64::new(0);
/// Opened so far, by number.
static OPEN: Mutex<Vec<Option<Arc<Logical>>>> = Mutex::new(Vec::new());

/// Divides a device into logical ones, which replace those of an earlier call: `cpu:0`, `cpu:1`… An empty list undoes it.
/// What is compiled from now on is placed on them; programs that were compiled before keep their devices.
///
/// # Errors
/// For a kind of device that cannot be divided, and for more than 64.
pub fn set_logical_devices(kind: &str, devices: &[LogicalDevice]) -> Result<()> {
    if kind != KIND {
        let e = format!("{kind:?} cannot be divided into logical devices, only {KIND:?} can");
        return Err(Error::value(e).in_op("set_logical_devices"));
    }
    if devices.len() > DEVICES_MAX {
        let e = format!("{} logical devices are more than {DEVICES_MAX}", devices.len());
        return Err(Error::value(e).in_op("set_logical_devices"));
    }
    if devices.iter().any(|d| d.threads == Some(0)) {
        return Err(Error::value("a logical device has at least one thread").in_op("set_logical_devices"));
    }
    *CONFIGURED.write() = devices.to_vec();
    REVISION.fetch_add(1, Relaxed);
    for (number, device) in OPEN.lock().iter().enumerate() {
        if let (Some(device), Some(new)) = (device, devices.get(number)) {
            device.configure(*new, devices.len());
        }
    }
    Ok(())
}

/// The logical devices, in the order of their numbers.
pub fn logical_devices() -> Vec<LogicalDevice> {
    CONFIGURED.read().clone()
}

/// Their names.
pub fn logical_names() -> Vec<String> {
    (0..CONFIGURED.read().len()).map(|i| format!("{KIND}:{i}")).collect()
}

/// Whether a name is that of a logical device.
pub fn is_logical(name: &str) -> bool {
    number(name).is_some_and(|n| n < CONFIGURED.read().len())
}

/// Whether a name stands for any of the logical devices.
pub fn is_divided(name: &str) -> bool {
    name == KIND && !CONFIGURED.read().is_empty()
}

/// Changes with [`set_logical_devices`].
pub fn logical_revision() -> u64 {
    REVISION.load(Relaxed)
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix(KIND)?.strip_prefix(':')?.parse().ok()
}

/// `TALWEG_LOGICAL_CPUS` devices of `TALWEG_LOGICAL_CPU_MEMORY` bytes.
fn of_environment() -> Vec<LogicalDevice> {
    let count = std::env::var("TALWEG_LOGICAL_CPUS").ok().and_then(|n| n.trim().parse::<usize>().ok()).unwrap_or(0);
    let limit = std::env::var("TALWEG_LOGICAL_CPU_MEMORY").ok();
    let memory_limit = limit.and_then(|text| {
        let bytes = parse_bytes(&text);
        if bytes.is_none() {
            crate::log::warn(&format!("TALWEG_LOGICAL_CPU_MEMORY is {text:?}, no size such as 64MiB: it is ignored"));
        }
        bytes
    });
    vec![LogicalDevice { memory_limit, threads: None }; count.min(DEVICES_MAX)]
}

/// A size as people write it: `64MiB`, `2 GB`, `1000`.
pub fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (text[..at].parse::<f64>().ok()?, text[at..].trim().to_ascii_lowercase());
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * factor) as usize)
}

/// Bytes for people.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Opens a logical device over the device that it divides.
pub(crate) fn open(name: &str, whole: impl FnOnce() -> Result<Arc<dyn Device>>) -> Result<Arc<dyn Device>> {
    let number = number(name).ok_or_else(|| Error::bug("no name of a logical device"))?;
    let mut open = OPEN.lock();
    if open.len() <= number {
        open.resize(number + 1, None);
    }
    if let Some(known) = &open[number] {
        return Ok(known.clone());
    }
    let inner = whole()?;
    let limit = AtomicUsize::new(usize::MAX);
    let device = Arc::new(Logical {
        name: name.to_string(),
        number,
        inner,
        limit,
        threads: AtomicUsize::new(1),
        account: Arc::default(),
    });
    let all = logical_devices();
    device.configure(all.get(number).copied().unwrap_or_default(), all.len());
    open[number] = Some(device.clone());
    Ok(device)
}

/// Bytes in use.
#[derive(Default)]
struct Account {
    used: AtomicUsize,
    peak: AtomicUsize,
}

/// Bytes that a value is charged with, until it is dropped.
struct Charge {
    account: Arc<Account>,
    bytes: usize,
}
impl Charge {
    fn new(account: &Arc<Account>, bytes: usize) -> Arc<Charge> {
        let used = account.used.fetch_add(bytes, Relaxed) + bytes;
        account.peak.fetch_max(used, Relaxed);
        Arc::new(Charge { account: account.clone(), bytes })
    }
}
impl Drop for Charge {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// A value on a logical device.
struct Hosted {
    device: Arc<str>,
    /// Nothing once a run has taken it.
    value: Mutex<Literal>,
    charge: Arc<Charge>,
}
impl Storage for Hosted {
    fn device(&self) -> &str {
        &self.device
    }
    fn read(&self) -> Result<Literal> {
        Ok(self.value.lock().clone())
    }
    fn retyped(&self, ty: Type) -> Arc<dyn Storage> {
        let value = self.value.lock().retyped(ty.dtype, ty.shape);
        Arc::new(Hosted { device: self.device.clone(), value: Mutex::new(value), charge: self.charge.clone() })
    }
    fn host(&self) -> Option<Literal> {
        Some(self.value.lock().clone())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A logical device.
struct Logical {
    name: String,
    number: usize,
    inner: Arc<dyn Device>,
    /// `usize::MAX`: none.
    limit: AtomicUsize,
    threads: AtomicUsize,
    account: Arc<Account>,
}

impl Logical {
    fn configure(&self, to: LogicalDevice, count: usize) {
        self.limit.store(to.memory_limit.unwrap_or(usize::MAX), Relaxed);
        let (all, count) = (self.inner.shares(), count.max(1));
        let share = all / count + usize::from(self.number < all % count);
        self.threads.store(to.threads.unwrap_or(share).max(1), Relaxed);
    }
    fn hosted(&self, value: Literal) -> Buffer {
        let charge = Charge::new(&self.account, value.bytes().len());
        Buffer::Device(Arc::new(Hosted { device: self.name.as_str().into(), value: Mutex::new(value), charge }))
    }
    fn program(&self, program: Arc<dyn Program>) -> Arc<dyn Program> {
        let memory = program.work().map_or(0, |w: Work| w.memory.arena + w.memory.results - w.memory.in_place);
        let own = Logical {
            name: self.name.clone(),
            number: self.number,
            inner: self.inner.clone(),
            limit: AtomicUsize::new(usize::MAX),
            threads: AtomicUsize::new(self.threads.load(Relaxed)),
            account: self.account.clone(),
        };
        Arc::new(OnShare { program, device: own, memory })
    }
}

impl Device for Logical {
    fn name(&self) -> &str {
        &self.name
    }
    fn claims(&self, node: &FlatNode, types: &[Type]) -> bool {
        self.inner.claims(node, types)
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        Ok(self.program(self.inner.compile(graph)?))
    }
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        Ok(self.program(self.inner.compile_watched(graph, watch)?))
    }
    fn flags(&self) -> u64 {
        self.inner.flags()
    }
    fn refuses(&self, node: &FlatNode, types: &[Type]) -> Option<String> {
        self.inner.refuses(node, types)
    }
    fn place(&self, value: &Buffer) -> Result<Buffer> {
        if let Buffer::Device(s) = value
            && s.device() == self.name
        {
            return Ok(value.clone());
        }
        let value = value.read()?;
        let (used, limit) = (self.account.used.load(Relaxed), self.limit.load(Relaxed));
        if used.saturating_add(value.bytes().len()) > limit {
            let e = format!(
                "{} has no room for {}: {} of its {} are in use",
                self.name,
                size(value.bytes().len()),
                size(used),
                size(limit)
            );
            return Err(Error::new(ErrorKind::Device, e));
        }
        Ok(self.hosted(value))
    }
    fn receive(&self, value: &Buffer) -> Result<Buffer> {
        Ok(self.hosted(value.read()?))
    }
    fn memory(&self) -> Option<Memory> {
        let used_bytes = self.account.used.load(Relaxed);
        Some(Memory { used_bytes, peak_bytes: self.account.peak.load(Relaxed), held_bytes: used_bytes })
    }
    fn reset_peak(&self) {
        self.account.peak.store(self.account.used.load(Relaxed), Relaxed);
    }
    fn free_and_total(&self) -> Result<Option<(usize, usize)>> {
        let limit = self.memory_limit();
        Ok(limit.map(|l| (l.saturating_sub(self.account.used.load(Relaxed)), l)))
    }
    fn memory_limit(&self) -> Option<usize> {
        Some(self.limit.load(Relaxed)).filter(|l| *l != usize::MAX)
    }
    fn speed(&self) -> Speed {
        let (whole, all) = (self.inner.speed(), self.inner.shares().max(1) as f64);
        let share = (self.threads.load(Relaxed) as f64 / all).min(1.0);
        Speed { flops: whole.flops * share, bandwidth: whole.bandwidth * share, ..whole }
    }
    fn synchronize(&self) -> Result<()> {
        self.inner.synchronize()
    }
}

/// A program on a share of a device.
struct OnShare {
    program: Arc<dyn Program>,
    device: Logical,
    /// Bytes of a run besides what is given.
    memory: usize,
}

impl Program for OnShare {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        let account = &self.device.account;
        account.peak.fetch_max(account.used.load(Relaxed) + self.memory, Relaxed);
        // Values without another owner are moved, so that their memory may be taken over. The others stay as they are.
        let mut before: Vec<Option<Buffer>> = vec![None; inputs.len()];
        let mut is_moved = vec![false; inputs.len()];
        for (k, b) in inputs.iter_mut().enumerate() {
            let Buffer::Device(s) = &*b else { continue };
            let own = s.as_any().downcast_ref::<Hosted>().filter(|h| *h.device == *self.device.name);
            let is_sole = |h: &Hosted| Arc::strong_count(s) == 1 && Arc::strong_count(&h.charge) == 1;
            let value = match own.filter(|h| is_sole(h)) {
                Some(h) => {
                    is_moved[k] = true;
                    std::mem::replace(&mut *h.value.lock(), Literal::nothing())
                }
                None => s.read()?,
            };
            let old = std::mem::replace(b, Buffer::Host(value));
            before[k] = (!is_moved[k]).then_some(old);
        }
        let share = DeviceShare { number: self.device.number, threads: self.device.threads.load(Relaxed) };
        let mut done = None;
        self.device.inner.within(share, &mut || done = Some(self.program.run(inputs)));
        let done = done.ok_or_else(|| Error::bug("the share of a device ran nothing"));
        for (k, b) in inputs.iter_mut().enumerate() {
            if let Some(old) = before[k].take() {
                *b = old;
            } else if let (Buffer::Host(l), true) = (&mut *b, is_moved[k]) {
                let value = std::mem::replace(l, Literal::nothing());
                // Nothing is left of what was overwritten.
                let is_left = !value.bytes().is_empty() || *value.shape() != *Literal::nothing().shape();
                *b = if is_left { self.device.hosted(value) } else { Buffer::Host(value) };
            }
        }
        Ok(done??
            .into_iter()
            .map(|b| match b {
                Buffer::Host(l) => self.device.hosted(l),
                other => other,
            })
            .collect())
    }
    fn explain(&self) -> String {
        self.program.explain()
    }
    fn sources(&self) -> String {
        self.program.sources()
    }
    fn may_fail(&self) -> bool {
        self.program.may_fail()
    }
    fn work(&self) -> Option<Work> {
        self.program.work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [("1000", 1000), ("64MiB", 64 << 20), ("2 GB", 2_000_000_000), ("1.5k", 1536), ("8m", 8 << 20)];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        assert_eq!((parse_bytes("much"), parse_bytes("3 parsec")), (None, None));
    }

    #[test]
    fn only_the_host_is_divided() {
        let e = set_logical_devices("abacus", &[LogicalDevice::default()]).unwrap_err().to_string();
        assert!(e.contains("\"abacus\" cannot be divided"), "{e}");
        let none = LogicalDevice { threads: Some(0), ..LogicalDevice::default() };
        assert!(set_logical_devices(KIND, &[none]).unwrap_err().to_string().contains("at least one thread"));
    }
}

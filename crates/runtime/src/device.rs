//! What a device is to the rest of the system: it claims ops, compiles graphs and runs them.

use crate::Work;
use ir::{Buffer, DeviceMemory, Error, ErrorKind, FlatNode, Graph, Literal, Result, Type};
use passes::Watch;
use std::sync::Arc;
use std::time::Instant;

/// A place to run graphs.
pub trait Device: Send + Sync {
    /// Its name: `cpu`, `cuda:0`.
    fn name(&self) -> &str;
    /// Whether it runs this composite itself, faster than the ops it consists of.
    fn claims(&self, node: &FlatNode, types: &[Type]) -> bool;
    /// Compiles a graph that holds only primitive ops and claimed composites.
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>>;
    /// Compiles a graph before an observer. A device that plans with [`passes::plan`] shows it each of its stages.
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        let _ = watch;
        self.compile(graph)
    }
    /// Whether its programs compute while an exchange with other ranks is in progress.
    fn computes_meanwhile(&self) -> bool {
        false
    }
    /// Whether it brings weights into the form of its kernels beforehand, where they are known when a program is compiled.
    fn packs_weights(&self) -> bool {
        false
    }
    /// Compiles a graph some of whose inputs have the same value at every run: `fixed` has those values, by input.
    fn compile_fixed(&self, graph: Graph, fixed: &[Option<Literal>]) -> Result<Arc<dyn Program>> {
        let _ = fixed;
        self.compile(graph)
    }
    /// Bytes that programs hold besides a value to have it in the form of their kernels.
    fn packed_bytes(&self, value: &Buffer) -> usize {
        let _ = value;
        0
    }
    /// Switches that decide what it compiles, such as the precision of products: a program is used
    /// again only while they are as they were.
    fn flags(&self) -> u64 {
        0
    }
    /// A value in this device's memory. Programs take values from anywhere; one that is used many
    /// times should not be copied each time.
    fn place(&self, value: &Buffer) -> Result<Buffer> {
        Ok(Buffer::Host(value.read()?))
    }
    /// The same for a value that another device sends in the middle of a run, whose memory was planned.
    fn receive(&self, value: &Buffer) -> Result<Buffer> {
        self.place(value)
    }
    /// A value in memory of this device that another library lends, or a copy of it where `is_copy`
    /// says so or the device could not read the memory as it is. Returns whether it was copied.
    fn adopt(&self, loan: DeviceMemory, ty: Type, is_copy: bool) -> Result<(Buffer, bool)> {
        let _ = (loan, ty, is_copy);
        Err(Error::new(ErrorKind::Device, format!("{} has no memory that others could lend", self.name())))
    }
    /// A value in memory of this device that another library lends to one who calls [`Device::follow`] before it is
    /// read and [`Device::lead`] before it is dropped: nothing is waited for. Returns whether it was copied.
    fn adopt_in_order(&self, loan: DeviceMemory, ty: Type) -> Result<(Buffer, bool)> {
        self.adopt(loan, ty, false)
    }
    /// What is asked of the device from now on begins after what another library has put on its stream so far.
    fn follow(&self, stream: u64) -> Result<()> {
        let _ = stream;
        Ok(())
    }
    /// What another library puts on its stream from now on begins after what was asked of the device so far.
    fn lead(&self, stream: u64) -> Result<()> {
        let _ = stream;
        self.synchronize()
    }
    /// The stream in whose order the device works, as other libraries know it.
    fn stream(&self) -> Option<u64> {
        None
    }
    /// Waits until everything that was asked of the device is done, and reports what failed.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    /// The memory in use; `None` if the device does not count it.
    fn memory(&self) -> Option<Memory> {
        None
    }
    /// Forgets the highest use of memory so far.
    fn reset_peak(&self) {}
    /// Gives memory that is kept but not used back to whom it was taken from.
    fn release_kept(&self) -> Result<()> {
        Ok(())
    }
    /// Free and total bytes of memory; `None` if the device does not count them.
    fn free_and_total(&self) -> Result<Option<(usize, usize)>> {
        Ok(None)
    }
    /// What it can do at most, for the simulation that places ops.
    fn speed(&self) -> Speed {
        Speed::default()
    }
    /// Bytes that programs on it may use, where they are limited.
    fn memory_limit(&self) -> Option<usize> {
        None
    }
    /// Why it does not run a node, if it does not.
    fn refuses(&self, node: &FlatNode, types: &[Type]) -> Option<String> {
        let _ = (node, types);
        None
    }
    /// Runs `f` on a share of the device.
    fn within(&self, share: DeviceShare, f: &mut dyn FnMut()) {
        let _ = share;
        f();
    }
    /// How many shares it can be divided into: its threads.
    fn shares(&self) -> usize {
        1
    }
    /// Milliseconds the device takes for what `f` asks of it.
    fn time(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        let start = Instant::now();
        f()?;
        self.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

/// A share of a device: that of one logical device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceShare {
    /// The number of the logical device.
    pub number: usize,
    /// Its threads.
    pub threads: usize,
}

/// What a device can do at most. The numbers are stated, not measured: a placement is the same at every run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Operations a second.
    pub flops: f64,
    /// Bytes a second from and to its memory.
    pub bandwidth: f64,
    /// Seconds to start a region.
    pub launch: f64,
    /// Seconds before the first byte that is sent to it or from it.
    pub latency: f64,
    /// Bytes a second that are sent.
    pub rate: f64,
    /// Whether its memory is that of the host.
    pub is_host: bool,
}
impl Default for Speed {
    /// One thread of a CPU.
    fn default() -> Speed {
        Speed { flops: 3e10, bandwidth: 8e9, launch: 1e-6, latency: 5e-5, rate: 1e10, is_host: true }
    }
}

/// What memory of a device is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes handed out.
    pub used_bytes: usize,
    /// The most bytes handed out at once.
    pub peak_bytes: usize,
    /// Bytes taken from the device, handed out or kept.
    pub held_bytes: usize,
}

/// A compiled graph.
pub trait Program: Send + Sync {
    /// Runs it. A result may take over the memory of an input that is not shared; nothing is
    /// left of that input then. If the run fails, all inputs are as they were.
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>>;
    /// Runs it from and to memory of the caller's: the bytes of each input and of each result. False
    /// if it cannot; if the run fails, what is in `outs` means nothing.
    fn run_over(&self, inputs: &[&[u8]], outs: &mut [&mut [u8]]) -> Result<bool> {
        let _ = (inputs, outs);
        Ok(false)
    }
    /// What it consists of, for people.
    fn explain(&self) -> String;
    /// The source of the kernels that were generated for it, if the device has any.
    fn sources(&self) -> String {
        String::new()
    }
    /// Whether a run may fail because of its data. Variables are updated in place only when nothing else may.
    fn may_fail(&self) -> bool {
        true
    }
    /// What its regions do and what memory it needs, for a model of its cost; `None` if the device does not say.
    fn work(&self) -> Option<Work> {
        None
    }
}

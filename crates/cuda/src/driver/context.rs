//! One GPU: its context, its stream, its memory and the kernels loaded on it.

#![allow(unsafe_code)]

mod launch;

use crate::device::Properties;
use crate::dnn::Network;
use crate::dnn::backend::{Dnn, Ready};
use crate::driver::nvrtc;
use crate::flags::{self, Flag, is_on};
use crate::library::cublas::{Blas, TunedAlgorithms, WORKSPACE};
use crate::memory::pool::Pool;
use crate::memory::staging::Staging;
use crate::target::claims;
use cudarc::driver::{result as cu, sys};
use ir::{Error, ErrorKind, FlatNode, Result, Site, Type};
use parking_lot::{Mutex, ReentrantMutex};
use runtime::Memory;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Kernels compiled as one unit: starting the compiler costs more than one of them.
const TOGETHER: usize = 16;

/// Times that memory is cleared before short work is timed.
const CLEARINGS: usize = 4;

/// Runs whose ends are known one by one.
const RUNS: usize = 16;

/// A failure of the device.
pub fn failed(what: &str, e: impl std::fmt::Debug) -> Error {
    Error::new(ErrorKind::Device, format!("{what}: {e:?}"))
}

/// What a kernel reports: which launch, and the index that is out of range.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Report {
    /// Number of the launch, from 1; 0 while all is well.
    launch: i64,
    index: i64,
    /// The status word on the device.
    status: u64,
}

/// What to say of a bad index: the op, the user's line, and the words around the index.
#[derive(Clone)]
pub struct Blame {
    /// The op's name.
    pub op: String,
    /// The user's line.
    pub site: Site,
    /// What comes before the index.
    pub before: &'static str,
    /// What comes after it.
    pub after: String,
}

/// A kernel ready to launch.
#[derive(Clone, Copy)]
pub struct Function(sys::CUfunction);
// SAFETY: a function handle may be used from any thread once its context is current there.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// One GPU.
pub struct Context {
    /// `cuda:0`…
    pub name: String,
    /// Such as `sm_90`.
    pub arch: String,
    /// The first number of its compute capability; from 9 on, launches may begin before the one
    /// before them has ended.
    pub major: u32,
    /// And the second.
    pub minor: u32,
    context: sys::CUcontext,
    /// All work goes through it.
    pub stream: sys::CUstream,
    pool: Mutex<Pool>,
    pub(crate) staging: Mutex<Staging>,
    /// Mapped host memory for [`Report`].
    report: *mut Report,
    report_on_device: u64,
    /// A word on the device that is not 0 from a report on until the host has seen it.
    pub status: u64,
    blames: Mutex<Vec<Blame>>,
    functions: Mutex<HashMap<String, Function>>,
    blas: OnceLock<Result<Blas>>,
    dnn: OnceLock<Result<Dnn>>,
    /// Networks that were asked for.
    ready: Mutex<HashMap<String, Result<Arc<Ready>>>>,
    /// How products are computed best.
    pub(crate) choices: TunedAlgorithms,
    /// Begin and end of what is timed.
    events: [sys::CUevent; 2],
    /// Where one stream waits for another.
    turn: sys::CUevent,
    /// The ends of the latest runs, by number, and how many there were.
    ends: [sys::CUevent; RUNS],
    runs: AtomicU64,
    /// Results are copied to the host here, so that no reader waits for later runs.
    copies: sys::CUstream,
    /// Working memory of products, which run one after the other.
    workspace: OnceLock<Result<u64>>,
    /// DeviceValue while work is put on the stream, so that what is captured is one program's.
    pub order: ReentrantMutex<()>,
}
// SAFETY: the driver's handles may be used from any thread once the context is current there, and
// the report is only read, with the stream idle or through a volatile read.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// How many GPUs there are; none without a driver.
pub fn count() -> usize {
    // SAFETY: it only tries to load the library by its usual names.
    let has_driver = unsafe { sys::is_culib_present() };
    let counted = has_driver && cu::init().is_ok();
    if counted { cu::device::get_count().map_or(0, |n| n as usize) } else { 0 }
}

/// What the driver says about the GPU with this number.
pub fn properties(ordinal: usize) -> Result<Properties> {
    let count = count();
    if ordinal >= count {
        let e = format!("there is no cuda:{ordinal}: this machine has {count} GPUs");
        return Err(Error::new(ErrorKind::Device, e));
    }
    let bad = |e| failed(&format!("cuda:{ordinal}"), e);
    let device = cu::device::get(ordinal as i32).map_err(bad)?;
    use sys::CUdevice_attribute as A;
    // SAFETY: the device exists.
    let get = |a| unsafe { cu::device::get_attribute(device, a) }.map(i32::unsigned_abs).map_err(bad);
    Ok(Properties {
        name: cu::device::get_name(device).map_err(bad)?,
        major: get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        // SAFETY: as above.
        total_memory: unsafe { cu::device::total_mem(device) }.map_err(bad)?,
        multi_processor_count: get(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        warp_size: get(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        max_threads_per_multi_processor: get(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        shared_memory_per_multiprocessor: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)? as usize,
        l2_cache_size: get(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
    })
}

/// How a network is computed depends on the switches too.
fn ready_key(network: &Network) -> String {
    format!("{} {network:?}", flags::all())
}

impl Context {
    /// Opens the GPU with this number.
    pub fn open(ordinal: usize) -> Result<Arc<Context>> {
        let missing = |what: &str| Error::new(ErrorKind::Device, what.to_string());
        // SAFETY: it only tries to load the library by its usual names.
        if !unsafe { sys::is_culib_present() } {
            return Err(missing("NVIDIA's driver (libcuda.so) was not found on this machine"));
        }
        cu::init().map_err(|e| failed("NVIDIA's driver does not start", e))?;
        let count = cu::device::get_count().map_err(|e| failed("NVIDIA's driver", e))?;
        if ordinal >= count as usize {
            return Err(missing(&format!("there is no cuda:{ordinal}: this machine has {count} GPUs")));
        }
        if !nvrtc::is_present() {
            return Err(missing(
                "NVRTC (libnvrtc.so) was not found; it comes with the CUDA toolkit or PyPI's nvidia-cuda-nvrtc",
            ));
        }
        let bad = |e| failed(&format!("cuda:{ordinal} does not open"), e);
        let device = cu::device::get(ordinal as i32).map_err(bad)?;
        // SAFETY: the device exists; the primary context lives as long as the process.
        let (context, major, minor) = unsafe {
            use sys::CUdevice_attribute as A;
            let context = cu::primary_ctx::retain(device).map_err(bad)?;
            cu::ctx::set_current(context).map_err(bad)?;
            let get = |a| cu::device::get_attribute(device, a).map_err(bad);
            (
                context,
                get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            )
        };
        let stream = cu::stream::create(cu::stream::StreamKind::NonBlocking).map_err(bad)?;
        // SAFETY: freshly allocated, mapped into the device's space and never freed.
        let (report, report_on_device) = unsafe {
            let p = cu::malloc_host(size_of::<Report>(), sys::CU_MEMHOSTALLOC_DEVICEMAP).map_err(bad)?;
            let p: *mut Report = p.cast();
            let status = cu::malloc_sync(size_of::<i64>()).map_err(bad)?;
            cu::memset_d8_sync(status, 0, size_of::<i64>()).map_err(bad)?;
            p.write(Report { status, ..Report::default() });
            let mut on_device = 0;
            sys::cuMemHostGetDevicePointer_v2(&mut on_device, p.cast(), 0).result().map_err(bad)?;
            (p, on_device)
        };
        // SAFETY: just written.
        let status = unsafe { (*report).status };
        let event = || cu::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(bad);
        let end = || cu::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(bad);
        let ends = (0..RUNS).map(|_| end()).collect::<Result<Vec<_>>>()?;
        let ends = ends.try_into().map_err(|_| Error::bug("an event for each run"))?;
        Ok(Arc::new(Context {
            name: format!("cuda:{ordinal}"),
            // Some instructions are of this one generation alone.
            arch: format!("sm_{major}{minor}{}", if (major, minor) == (9, 0) { "a" } else { "" }),
            major: major.unsigned_abs(),
            minor: minor.unsigned_abs(),
            context,
            stream,
            pool: Mutex::default(),
            staging: Mutex::new(Staging::new()?),
            report,
            report_on_device,
            status,
            blames: Mutex::default(),
            functions: Mutex::default(),
            blas: OnceLock::new(),
            dnn: OnceLock::new(),
            ready: Mutex::default(),
            choices: TunedAlgorithms::default(),
            events: [event()?, event()?],
            turn: end()?,
            ends,
            runs: AtomicU64::new(0),
            copies: cu::stream::create(cu::stream::StreamKind::NonBlocking).map_err(bad)?,
            workspace: OnceLock::new(),
            order: ReentrantMutex::new(()),
        }))
    }

    /// Makes the context current in this thread.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the process.
        unsafe { cu::ctx::set_current(self.context) }.map_err(|e| failed(&self.name, e))
    }

    /// Matrix products; loaded when first needed.
    pub fn blas(&self) -> Result<&Blas> {
        self.blas.get_or_init(Blas::new).as_ref().map_err(Clone::clone)
    }

    /// Attention and convolution; loaded when first needed.
    pub fn dnn(&self) -> Result<&Dnn> {
        self.dnn.get_or_init(|| Dnn::new(self.stream)).as_ref().map_err(Clone::clone)
    }

    /// Whether a composite runs here as one: the library has a way to compute it.
    pub fn claims(&self, n: &FlatNode, types: &[Type]) -> bool {
        let supports = |network: &Network| self.enter().is_ok() && self.has_op(n.op.name, network);
        claims(n, types, (self.major, self.minor), &supports)
    }

    /// Whether cuDNN has a way to compute a network.
    pub fn has(&self, network: &Network) -> bool {
        is_on(Flag::Dnn) && self.ready(network).is_ok()
    }
    /// The same; if it has none, the op is decomposed, which is reported once.
    fn has_op(&self, what: &str, network: &Network) -> bool {
        if !is_on(Flag::Dnn) {
            return false;
        }
        let is_new = !self.ready.lock().contains_key(&ready_key(network));
        match self.ready(network) {
            Err(e) if is_new => {
                let text = format_args!("{}: {what} is computed step by step, which is slower: {e}", self.name);
                runtime::log::warn(text);
                false
            }
            found => found.is_ok(),
        }
    }

    /// A network ready to run.
    pub fn ready(&self, network: &Network) -> Result<Arc<Ready>> {
        let _order = self.order.lock();
        let key = ready_key(network);
        let known = self.ready.lock().get(&key).cloned();
        known.unwrap_or_else(|| {
            let made = Ready::new(self, network).map(Arc::new);
            self.ready.lock().insert(key, made.clone());
            made
        })
    }

    /// Milliseconds of the best of several runs of what `f` puts on the stream, after one to warm
    /// up.
    ///
    /// Short work waits behind the clearing of `before`, memory of so many bytes, so that the device
    /// does not wait for the host meanwhile.
    pub fn timed(&self, runs: usize, before: Option<(u64, usize)>, mut f: impl FnMut() -> Result<()>) -> Result<f32> {
        f()?;
        let mut best = f32::INFINITY;
        for _ in 0..runs {
            for (at, bytes) in before.into_iter().cycle().take(CLEARINGS) {
                self.fill(at, 0, bytes)?;
            }
            best = best.min(self.elapsed(&mut f)?);
        }
        Ok(best)
    }
    /// Milliseconds the device works on what `f` puts on the stream.
    pub fn elapsed(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f32> {
        let bad = |e| failed(&format!("{}: timing", self.name), e);
        self.enter()?;
        let [begin, end] = self.events;
        // SAFETY: the events and the stream live as long as the context.
        unsafe {
            cu::event::record(begin, self.stream).map_err(bad)?;
            f()?;
            cu::event::record(end, self.stream).map_err(bad)?;
            cu::event::synchronize(end).map_err(bad)?;
            cu::event::elapsed(begin, end).map_err(bad)
        }
    }

    /// Working memory of products.
    pub fn workspace(&self) -> Result<u64> {
        self.workspace.get_or_init(|| self.take(WORKSPACE)).clone()
    }

    /// Memory for `bytes`, of any content.
    pub fn take(&self, bytes: usize) -> Result<u64> {
        // SAFETY: sizes are not zero; blocks are released once, with no work left that uses them.
        let taken = self.pool.lock().take(
            bytes,
            |n| unsafe { cu::malloc_sync(n) },
            |b| unsafe {
                let _ = cu::stream::synchronize(self.stream);
                let _ = cu::free_sync(b);
            },
        );
        taken.map_err(|e| failed(&format!("{}: no memory for {bytes} bytes", self.name), e))
    }
    /// Takes memory back; work already on the stream may still use it.
    pub fn give(&self, block: u64, bytes: usize) {
        self.pool.lock().give(block, bytes);
    }
    /// What memory is in use.
    pub fn memory(&self) -> Memory {
        self.pool.lock().memory()
    }
    /// Gives memory that is kept but not used back to the driver.
    pub fn release_kept(&self) -> Result<()> {
        // What is still running may use it.
        self.synchronize()?;
        self.enter()?;
        self.pool.lock().release_kept(|block| {
            // SAFETY: every kept block was taken from the driver by the pool, and nothing runs.
            let _ = unsafe { cu::free_sync(block) };
        });
        Ok(())
    }
    /// Bytes of the device's memory that are free, and all of them.
    pub fn free_and_total(&self) -> Result<(usize, usize)> {
        self.enter()?;
        cu::mem_get_info().map_err(|e| failed(&self.name, e))
    }
    /// Forgets the highest use of memory so far.
    pub fn reset_peak(&self) {
        self.pool.lock().reset_peak();
    }

    /// Copies host bytes to the device, in the stream's order.
    pub fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.staging
            .lock()
            .upload(self.stream, to, bytes)
            .map_err(|e| failed(&format!("{}: copying to it", self.name), e))
    }
    /// Copies bytes to the host, after everything on the stream is done.
    pub fn download(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        let _order = self.order.lock();
        self.enter()?;
        // SAFETY: the caller's block holds at least as many bytes; the copy is waited for.
        let copied = unsafe { cu::memcpy_dtoh_async(bytes, from, self.stream) };
        copied.map_err(|e| failed(&format!("{}: copying from it", self.name), e))?;
        self.synchronize()
    }
    /// Notes that all of a run is on the stream; its number. The caller holds the order.
    pub fn note_run(&self) -> Result<u64> {
        let run = self.runs.load(Ordering::Relaxed);
        // SAFETY: events and stream live as long as the context.
        let noted = unsafe { cu::event::record(self.ends[run as usize % RUNS], self.stream) };
        noted.map_err(|e| failed(&self.name, e))?;
        self.runs.store(run + 1, Ordering::Relaxed);
        Ok(run)
    }
    /// Copies bytes to the host when a run has ended; later ones may still be on their way. If many have begun since,
    /// one of those is waited for.
    pub fn download_after(&self, run: u64, from: u64, bytes: &mut [u8]) -> Result<()> {
        self.enter()?;
        let bad = |e| failed(&format!("{}: copying from it", self.name), e);
        let at_once = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the caller's block holds at least as many bytes and is not written again; the copy is waited for.
        unsafe {
            cu::stream::wait_event(self.copies, self.ends[run as usize % RUNS], at_once).map_err(bad)?;
            cu::memcpy_dtoh_async(bytes, from, self.copies).map_err(bad)?;
            cu::stream::synchronize(self.copies).map_err(bad)?;
        }
        // SAFETY: mapped for as long as the context lives; a run that has ended has written what it reports.
        if unsafe { (&raw const (*self.report).launch).read_volatile() } == 0 { Ok(()) } else { self.synchronize() }
    }
    /// Copies bytes within the device, in the stream's order.
    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both are blocks of at least as many bytes, alive in the stream's order.
        unsafe { cu::memcpy_dtod_async(to, from, bytes, self.stream) }
            .map_err(|e| failed(&format!("{}: copying within it", self.name), e))
    }
    /// Sets bytes of a block.
    pub fn fill(&self, at: u64, byte: u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's block of so many bytes is alive in the stream's order.
        unsafe { cu::memset_d8_async(at, byte, bytes, self.stream) }
            .map_err(|e| failed(&format!("{}: clearing memory", self.name), e))
    }
    /// Waits for everything on the stream; errors are reported when a result is read.
    pub fn wait(&self) {
        let _order = self.order.lock();
        if self.enter().is_ok() {
            // SAFETY: the stream lives as long as the context.
            let _ = unsafe { cu::stream::synchronize(self.stream) };
        }
    }
    /// Waits for everything that anybody in this process has asked of the device.
    pub fn wait_for_all(&self) {
        let _order = self.order.lock();
        if self.enter().is_ok() {
            let _ = cu::ctx::synchronize();
        }
    }
    /// One stream waits for what another has so far; the host does not.
    fn turn(&self, before: sys::CUstream, after: sys::CUstream) -> Result<()> {
        let bad = |e| failed(&self.name, e);
        let _order = self.order.lock();
        self.enter()?;
        // SAFETY: the event and our stream live as long as the context; the other is its library's, which gave it.
        unsafe {
            cu::event::record(self.turn, before).map_err(bad)?;
            let at_once = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            cu::stream::wait_event(after, self.turn, at_once).map_err(bad)
        }
    }
    /// Ours waits for another library's stream. What went wrong in earlier runs, as far as it is known, is reported.
    pub fn follow(&self, stream: u64) -> Result<()> {
        // SAFETY: the report lives as long as the context, and its writers write integers.
        if unsafe { self.report.read_volatile() }.launch != 0 {
            self.synchronize()?;
        }
        self.turn(stream as sys::CUstream, self.stream)
    }
    /// Another library's stream waits for ours.
    pub fn lead(&self, stream: u64) -> Result<()> {
        self.turn(self.stream, stream as sys::CUstream)
    }
    /// Ours waits for another library's stream. An error is reported when a result is read.
    pub fn wait_for_stream(&self, stream: u64) {
        let _ = self.turn(stream as sys::CUstream, self.stream);
    }
    /// Waits for everything on the stream, and reports what went wrong in it.
    pub fn synchronize(&self) -> Result<()> {
        // No other stream's work is being captured then, which waiting would break.
        let _order = self.order.lock();
        self.enter()?;
        // SAFETY: the stream lives as long as the context.
        unsafe { cu::stream::synchronize(self.stream) }.map_err(|e| failed(&self.name, e))?;
        // SAFETY: the stream is idle, so nothing writes the report.
        let report = unsafe { self.report.read_volatile() };
        if report.launch == 0 {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.report.write_volatile(Report { status: self.status, ..Report::default() }) };
        self.fill(self.status, 0, size_of::<i64>())?;
        let Some(b) = self.blames.lock().get(report.launch as usize - 1).cloned() else {
            return Err(Error::bug("a report of an unknown launch"));
        };
        let e = format!("{} {} {}", b.before, report.index, b.after);
        Err(Error::index(e).in_op(&b.op).at(b.site))
    }

    /// A number under which a kernel reports bad indices, and where.
    pub fn blame(&self, b: Blame) -> (i64, u64) {
        let mut blames = self.blames.lock();
        blames.push(b);
        (blames.len() as i64, self.report_on_device)
    }

    /// Kernels by their source, compiled in parallel where they are new.
    pub fn functions(&self, sources: &[&str]) -> Result<Vec<Function>> {
        let mut new: Vec<&str> = {
            let known = self.functions.lock();
            sources.iter().copied().filter(|s| !known.contains_key(*s)).collect()
        };
        new.sort_unstable();
        new.dedup();
        let units: Vec<&[&str]> = new.chunks(TOGETHER).collect();
        let made = self.compile(&units);
        self.enter()?;
        let mut known = self.functions.lock();
        for (i, code) in made {
            let functions = self.load(&code?, units[i].len())?;
            known.extend(units[i].iter().map(|s| s.to_string()).zip(functions));
        }
        Ok(sources.iter().map(|s| known[*s]).collect())
    }

    /// Compiles each unit, several at a time.
    fn compile(&self, units: &[&[&str]]) -> Vec<(usize, Result<Vec<u8>>)> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(units.len());
        let next = AtomicUsize::new(0);
        let made: Mutex<Vec<(usize, Result<Vec<u8>>)>> = Mutex::default();
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(unit) = units.get(i) else { break };
                let code = nvrtc::compile(unit, &self.arch);
                made.lock().push((i, code));
            }
        };
        std::thread::scope(|s| {
            (1..threads).for_each(|_| {
                s.spawn(work);
            });
            work();
        });
        made.into_inner()
    }

    /// The functions of a compiled unit.
    fn load(&self, code: &[u8], count: usize) -> Result<Vec<Function>> {
        let bad = |e| failed(&format!("{}: a kernel does not load", self.name), e);
        // SAFETY: the image is NVRTC's; modules live as long as the process, as do their functions.
        let module = unsafe { cu::module::load_data(code.as_ptr().cast::<c_void>()) }.map_err(bad)?;
        let function = |i: usize| {
            let entry = CString::new(format!("run{i}")).map_err(|_| Error::bug("an entry point's name"))?;
            // SAFETY: as above.
            Ok(Function(unsafe { cu::module::get_function(module, entry) }.map_err(bad)?))
        };
        (0..count).map(function).collect()
    }
}

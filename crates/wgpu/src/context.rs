//! An adapter that is open: queue, pipelines, pooled memory.

use ir::{Bytes, Error, ErrorKind, Result};
use parking_lot::Mutex;
use runtime::Memory;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// A compiled kernel.
pub struct Pipeline {
    /// The pipeline.
    pub pipeline: wgpu::ComputePipeline,
    /// Its bindings.
    pub layout: wgpu::BindGroupLayout,
}

/// Bytes by size class that are not in use.
#[derive(Default)]
struct Pool {
    free: FxHashMap<u64, Vec<wgpu::Buffer>>,
    memory: Memory,
}

/// An open adapter.
pub struct Context {
    /// The device's name: `wgpu:0`.
    pub name: String,
    /// The adapter's own name.
    pub adapter: String,
    /// The device.
    pub device: wgpu::Device,
    /// Its queue: work runs in the order it is submitted.
    pub queue: wgpu::Queue,
    /// Storage buffers that a kernel may bind.
    pub buffers_max: usize,
    /// Bytes of a buffer at most.
    pub bytes_max: u64,
    pipelines: Mutex<FxHashMap<String, Arc<Pipeline>>>,
    pool: Mutex<Pool>,
    failure: Arc<Mutex<Option<String>>>,
}

/// The adapters of this machine that compute: GPUs first, software last.
fn adapters() -> &'static [wgpu::Adapter] {
    static ALL: OnceLock<Vec<wgpu::Adapter>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut d = wgpu::InstanceDescriptor::new_without_display_handle();
        d.backends = wgpu::Backends::PRIMARY;
        d.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(d);
        let mut all = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        all.retain(|a| a.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS));
        all.sort_by_key(|a| match a.get_info().device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu => 1,
            wgpu::DeviceType::VirtualGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        });
        all
    })
}

/// How many adapters there are.
pub fn count() -> usize {
    adapters().len()
}

fn failed(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Device, what.to_string())
}

impl Context {
    /// Opens the adapter with this number.
    pub fn open(number: usize) -> Result<Context> {
        let adapter = adapters().get(number).ok_or_else(|| {
            failed(format!(
                "there is no device \"wgpu:{number}\": {} adapters of Vulkan, Metal or Direct3D 12 were found",
                count()
            ))
        })?;
        let has = adapter.limits();
        // The limits that every browser grants, but for the sizes of buffers.
        let limits = wgpu::Limits {
            max_buffer_size: has.max_buffer_size,
            max_storage_buffer_binding_size: has.max_storage_buffer_binding_size,
            ..wgpu::Limits::default()
        };
        let descriptor = wgpu::DeviceDescriptor { required_limits: limits.clone(), ..Default::default() };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|e| failed(format!("{}: {e}", adapter.get_info().name)))?;
        let failure: Arc<Mutex<Option<String>>> = Arc::default();
        let seen = failure.clone();
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
            seen.lock().get_or_insert_with(|| e.to_string());
        }));
        let lost = failure.clone();
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                lost.lock().get_or_insert_with(|| format!("the device was lost: {message}"));
            }
        });
        Ok(Context {
            name: format!("wgpu:{number}"),
            adapter: adapter.get_info().name,
            device,
            queue,
            buffers_max: limits.max_storage_buffers_per_shader_stage as usize,
            bytes_max: limits.max_buffer_size.min(limits.max_storage_buffer_binding_size),
            pipelines: Mutex::default(),
            pool: Mutex::default(),
            failure,
        })
    }

    /// What the device has reported since the last look.
    pub fn check(&self) -> Result<()> {
        match self.failure.lock().take() {
            Some(message) => Err(failed(format!("{}: {message}", self.name))),
            None => Ok(()),
        }
    }

    /// The pipeline of a source whose storage bindings are written or not; equal sources are compiled once.
    pub fn pipeline(&self, source: &str, is_written: &[bool]) -> Result<Arc<Pipeline>> {
        if let Some(p) = self.pipelines.lock().get(source) {
            return Ok(p.clone());
        }
        let entry = |binding: usize, ty: wgpu::BufferBindingType| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform)];
        entries.extend(
            is_written
                .iter()
                .enumerate()
                .map(|(k, w)| entry(k + 1, wgpu::BufferBindingType::Storage { read_only: !w })),
        );
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let layout =
            self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let all = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&all),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Every kernel writes workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        if let Some(e) = pollster::block_on(scope.pop()) {
            return Err(Error::bug(format!("a generated kernel does not compile: {e}\n{source}")));
        }
        let p = Arc::new(Pipeline { pipeline, layout });
        self.pipelines.lock().insert(source.to_string(), p.clone());
        Ok(p)
    }

    /// A buffer of at least so many bytes, from the pool or new. Its contents are undefined.
    pub fn take(&self, bytes: usize) -> Result<wgpu::Buffer> {
        let class = size_class(bytes);
        if class.min(bytes as u64) > self.bytes_max {
            let most = self.bytes_max;
            return Err(failed(format!("{}: a value of {bytes} B is larger than the adapter's {most} B", self.name)));
        }
        let class = class.min(self.bytes_max);
        let mut pool = self.pool.lock();
        let kept = pool.free.get_mut(&class).and_then(Vec::pop);
        pool.memory.used_bytes += class as usize;
        pool.memory.peak_bytes = pool.memory.peak_bytes.max(pool.memory.used_bytes);
        if let Some(b) = kept {
            return Ok(b);
        }
        pool.memory.held_bytes += class as usize;
        drop(pool);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let b = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: class,
            usage,
            mapped_at_creation: false,
        });
        match pollster::block_on(scope.pop()) {
            Some(_) => Err(failed(format!("{}: out of memory for {bytes} B", self.name))),
            None => Ok(b),
        }
    }
    /// Returns a buffer to the pool. What was submitted before may still use it: later work waits for that.
    pub fn give(&self, buffer: wgpu::Buffer) {
        let mut pool = self.pool.lock();
        pool.memory.used_bytes -= buffer.size() as usize;
        pool.free.entry(buffer.size()).or_default().push(buffer);
    }
    /// What is in use.
    pub fn memory(&self) -> Memory {
        self.pool.lock().memory
    }
    /// Forgets the highest use so far.
    pub fn reset_peak(&self) {
        let memory = &mut self.pool.lock().memory;
        memory.peak_bytes = memory.used_bytes;
    }
    /// Drops what is kept but not used.
    pub fn release_kept(&self) {
        let mut pool = self.pool.lock();
        pool.free.clear();
        pool.memory.held_bytes = pool.memory.used_bytes;
    }

    /// Writes bytes at a place of a buffer, before what is submitted next.
    pub fn upload(&self, to: &wgpu::Buffer, at: usize, bytes: &[u8]) {
        if bytes.len().is_multiple_of(4) {
            self.queue.write_buffer(to, at as u64, bytes);
        } else {
            let mut padded = bytes.to_vec();
            padded.resize(bytes.len().next_multiple_of(4), 0);
            self.queue.write_buffer(to, at as u64, &padded);
        }
    }
    /// Reads stretches of buffers: waits for everything that was submitted.
    pub fn download(&self, parts: &[(&wgpu::Buffer, usize, usize)]) -> Result<Vec<Bytes>> {
        let rounded = |bytes: usize| bytes.next_multiple_of(4) as u64;
        let total: u64 = parts.iter().map(|p| rounded(p.2)).sum();
        if total == 0 {
            return Ok(parts.iter().map(|_| Bytes::zeroed(0)).collect());
        }
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: total,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut at = 0;
        for &(buffer, offset, bytes) in parts.iter().filter(|p| p.2 > 0) {
            encoder.copy_buffer_to_buffer(buffer, offset as u64, &staging, at, rounded(bytes));
            at += rounded(bytes);
        }
        self.queue.submit([encoder.finish()]);
        let (send, receive) = std::sync::mpsc::channel();
        staging.slice(..).map_async(wgpu::MapMode::Read, move |r| drop(send.send(r)));
        self.wait()?;
        match receive.recv() {
            Ok(Ok(())) => {}
            other => return Err(failed(format!("{}: a value could not be read: {other:?}", self.name))),
        }
        self.check()?;
        let view = staging.slice(..).get_mapped_range().map_err(failed)?;
        let mut at = 0;
        let part = |&(_, _, bytes): &(&wgpu::Buffer, usize, usize)| {
            let copy = Bytes::copy_of(&view[at..at + bytes]);
            at += bytes.next_multiple_of(4);
            copy
        };
        Ok(parts.iter().map(part).collect())
    }
    /// Waits for everything that was submitted.
    pub fn wait(&self) -> Result<()> {
        let all = wgpu::PollType::Wait { submission_index: None, timeout: None };
        self.device.poll(all).map(drop).map_err(|e| failed(format!("{}: {e}", self.name)))
    }
}

/// Sizes that buffers have: powers of two, above 1 MiB with three between each.
fn size_class(bytes: usize) -> u64 {
    let bytes = bytes.max(256) as u64;
    if bytes <= 1 << 20 {
        return bytes.next_power_of_two();
    }
    let quarter = (bytes.next_power_of_two() / 8).max(256);
    bytes.next_multiple_of(quarter)
}

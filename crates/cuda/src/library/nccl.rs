//! Collectives between GPUs by NCCL: from memory of one GPU into that of others, on the stream that
//! everything else goes through. The library is loaded when it is first needed.
//!
//! Ranks tell each other through the host what they are about to do, so that disagreement is an
//! error and not a wait without end; what they then wait for is waited for until a deadline.

#![allow(unsafe_code)]

use crate::driver::context::{Context, failed};
use cudarc::driver::{result as cu, sys as driver};
use cudarc::nccl::{result as nccl, sys};
use ir::{Call, DType, DevicePeers, Error, ErrorKind, FlatNode, Peers, PeersHandle, Result, Type};
use parking_lot::Mutex;
use std::ffi::{c_char, c_int, c_void};
use std::time::{Duration, Instant};

/// Bytes of NCCL's name of a communicator, of a GPU's name, and of a machine's.
const NAME_BYTES: usize = 128;
const GPU_BYTES: usize = 16;
const HOST_BYTES: usize = 36;
/// How long to rest between looks at the stream.
const REST: Duration = Duration::from_micros(5);

/// The ranks of a group on one GPU; they are few and live as long as the process.
#[derive(Clone, Copy)]
struct Comm(sys::ncclComm_t);
// SAFETY: used only while the context's order is held.
unsafe impl Send for Comm {}

/// Communicators by GPU and group. The handle keeps the group, and so its identity.
static COMMS: Mutex<Vec<((String, PeersHandle), Comm)>> = Mutex::new(Vec::new());

/// A failure of the library.
fn wrong(what: &str, e: impl std::fmt::Debug) -> Error {
    failed(&format!("NCCL: {what}"), e)
}
fn device(text: String) -> Error {
    Error::new(ErrorKind::Device, text)
}

/// Runs a collective whose operands lie at these addresses. False if it has to go through the host:
/// no setting says otherwise, or NCCL does not know the elements or how they are to be sent.
pub fn run(context: &Context, n: &FlatNode, input: (&Type, u64), output: (&Type, u64)) -> Result<bool> {
    let Ok(group) = n.attrs.peers("group") else { return Ok(false) };
    let Some(peers) = group.0.devices()? else { return Ok(false) };
    let Some(deal) = Deal::of(n, input.0, &*group.0)? else { return Ok(false) };
    let comm = comm(context, group, peers)?;
    peers.agree(n.op.name, &Call { types: std::slice::from_ref(input.0), attrs: &n.attrs })?;
    context.enter()?;
    deal.begin(context, comm, (input.1, output.1), output.0)?;
    wait(context, comm, group, peers.timeout())?;
    Ok(true)
}

/// What is asked of the library.
struct Deal {
    op: &'static str,
    /// Elements as the library counts them.
    dtype: sys::ncclDataType_t,
    count: usize,
    /// Bytes of the operand.
    bytes: usize,
    how: sys::ncclRedOp_t,
    /// The root or the other rank.
    peer: c_int,
    rank: c_int,
    size: usize,
}

impl Deal {
    fn of(n: &FlatNode, ty: &Type, peers: &dyn Peers) -> Result<Option<Deal>> {
        use sys::{ncclDataType_t as D, ncclRedOp_t as R};
        if n.attrs.str("wire").is_ok_and(|wire| wire != "exact") {
            return Ok(None);
        }
        let combines = matches!(n.op.name, "all_reduce" | "reduce" | "reduce_scatter");
        let dtype = match ty.dtype {
            _ if !combines => D::ncclUint8,
            DType::Bool | DType::U8 => D::ncclUint8,
            DType::I8 => D::ncclInt8,
            DType::I32 => D::ncclInt32,
            DType::U32 => D::ncclUint32,
            DType::I64 => D::ncclInt64,
            DType::U64 => D::ncclUint64,
            DType::F16 => D::ncclFloat16,
            DType::BF16 => D::ncclBfloat16,
            DType::F32 => D::ncclFloat32,
            DType::F64 => D::ncclFloat64,
            _ => return Ok(None),
        };
        let how = match n.attrs.str("how") {
            Ok("prod") => R::ncclProd,
            Ok("max") => R::ncclMax,
            Ok("min") => R::ncclMin,
            _ => R::ncclSum,
        };
        let peer = n.attrs.int("root").or_else(|_| n.attrs.int("peer")).unwrap_or(0) as c_int;
        let count = if combines { ty.shape.count() } else { ty.bytes() };
        let (rank, size) = (peers.rank() as c_int, peers.size());
        Ok(Some(Deal { op: n.op.name, dtype, count, bytes: ty.bytes(), how, peer, rank, size }))
    }

    /// Puts it on the stream.
    fn begin(&self, context: &Context, comm: Comm, at: (u64, u64), out: &Type) -> Result<()> {
        let (from, to) = (at.0 as *const c_void, at.1 as *mut c_void);
        let (c, s) = (comm.0, context.stream.cast());
        let (dtype, count, how, peer) = (self.dtype, self.count, self.how, self.peer);
        let zeros = |bytes| {
            // SAFETY: the result has so many bytes.
            unsafe { cu::memset_d8_async(at.1, 0, bytes, context.stream) }.map_err(|e| failed("clearing memory", e))
        };
        // SAFETY: operand and result lie on this GPU with the sizes of their types, until the stream
        // has come past this point.
        let done = unsafe {
            match self.op {
                "all_reduce" => nccl::all_reduce(from, to, count, dtype, how, c, s),
                "reduce" => {
                    if self.rank != peer {
                        zeros(out.bytes())?;
                    }
                    nccl::reduce(from, to, count, dtype, how, peer, c, s)
                }
                "reduce_scatter" => nccl::reduce_scatter(from, to, count / self.size, dtype, how, c, s),
                "broadcast_from" => nccl::broadcast(from, to, count, dtype, peer, c, s),
                "all_gather" => nccl::all_gather(from, to, count, dtype, c, s),
                "all_to_all" => return self.each_to_each(comm, at, context),
                "send" => {
                    zeros(out.bytes())?;
                    nccl::send(from, count, dtype, peer, c, s)
                }
                "recv" => nccl::recv(to, count, dtype, peer, c, s),
                other => return Err(Error::bug(format!("{other} is no collective"))),
            }
        };
        done.map(|_| ()).map_err(|e| wrong(self.op, e))
    }
    fn each_to_each(&self, comm: Comm, at: (u64, u64), context: &Context) -> Result<()> {
        let (part, bad) = (self.bytes / self.size, |e| wrong(self.op, e));
        nccl::group_start().map_err(bad)?;
        for r in 0..self.size {
            let (from, to) = (at.0 + (r * part) as u64, at.1 + (r * part) as u64);
            let (c, s) = (comm.0, context.stream.cast());
            // SAFETY: part r of operand and result, which lie on this GPU.
            unsafe {
                nccl::send(from as *const c_void, part, self.dtype, r as c_int, c, s).map_err(bad)?;
                nccl::recv(to as *mut c_void, part, self.dtype, r as c_int, c, s).map_err(bad)?;
            }
        }
        nccl::group_end().map(|_| ()).map_err(bad)
    }
}

/// Waits until the stream is done; past the deadline the communicator is given up.
fn wait(context: &Context, comm: Comm, group: &PeersHandle, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        // SAFETY: the stream lives as long as the context.
        match unsafe { driver::cuStreamQuery(context.stream) } {
            driver::CUresult::CUDA_SUCCESS => return Ok(()),
            driver::CUresult::CUDA_ERROR_NOT_READY if Instant::now() < deadline => std::thread::sleep(REST),
            driver::CUresult::CUDA_ERROR_NOT_READY => {
                COMMS.lock().retain(|((name, g), _)| (name, g) != (&context.name, group));
                // SAFETY: it is unused from here on.
                let _ = unsafe { nccl::comm_abort(comm.0) };
                return Err(device(format!("NCCL: other ranks did not take part within {} s", patience.as_secs())));
            }
            e => return Err(wrong("waiting", e)),
        }
    }
}

/// The communicator of a group, made when it is first needed.
fn comm(context: &Context, group: &PeersHandle, peers: &dyn DevicePeers) -> Result<Comm> {
    let key = (context.name.clone(), group.clone());
    if let Some((_, c)) = COMMS.lock().iter().find(|(k, _)| *k == key) {
        return Ok(*c);
    }
    let (rank, size) = (group.0.rank(), group.0.size());
    let id = meet(context, peers, rank)?;
    let mut comm: sys::ncclComm_t = std::ptr::null_mut();
    context.enter()?;
    // SAFETY: the place for the answer outlives the call; every rank has the same name.
    let made = unsafe { nccl::comm_init_rank(&mut comm, size as c_int, id, rank as c_int) };
    made.map_err(|e| wrong("joining the other ranks", e))?;
    COMMS.lock().push((key, Comm(comm)));
    Ok(Comm(comm))
}

/// Agrees on the name of a new communicator, once every rank has the library and a GPU of its own.
fn meet(context: &Context, peers: &dyn DevicePeers, rank: usize) -> Result<sys::ncclUniqueId> {
    // SAFETY: looks whether the library can be loaded.
    let has = unsafe { sys::is_culib_present() };
    let mut mine = vec![u8::from(has)];
    mine.extend(gpu(context)?);
    mine.extend(host());
    let id = if has && rank == 0 {
        nccl::get_uniqueid().map_err(|e| wrong("naming a communicator", e))?.internal
    } else {
        [0; NAME_BYTES]
    };
    mine.extend(id.map(|c| c as u8));
    let name = checked(&peers.gather(&mine)?, rank)?;
    Ok(sys::ncclUniqueId { internal: name.map(|b| b as c_char) })
}
/// The name that rank 0 has said, if every rank has the library and a GPU of its own.
fn checked(all: &[Vec<u8>], me: usize) -> Result<[u8; NAME_BYTES]> {
    let said = 1 + GPU_BYTES + HOST_BYTES;
    if all.iter().any(|b| b.len() != said + NAME_BYTES) {
        return Err(Error::bug("a rank says too little of itself"));
    }
    if let Some(r) = all.iter().position(|b| b[0] == 0) {
        let whose = if r == me { "here".to_string() } else { format!("on rank {r}") };
        return Err(device(format!(
            "collectives by NCCL need its library (libnccl.so), which cannot be loaded {whose}: install it or add its \
             folder to LD_LIBRARY_PATH"
        )));
    }
    for (r, b) in all.iter().enumerate() {
        if let Some(q) = all[..r].iter().position(|a| a[1..said] == b[1..said]) {
            return Err(device(format!(
                "ranks {q} and {r} use the same GPU: NCCL needs one for each; choose it with TALWEG_DEVICE=cuda:N or \
                 CUDA_VISIBLE_DEVICES"
            )));
        }
    }
    Ok(std::array::from_fn(|i| all[0][said + i]))
}
/// What tells this GPU from all others.
fn gpu(context: &Context) -> Result<[u8; GPU_BYTES]> {
    let number = context.name.rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let found = cu::device::get(number).and_then(cu::device::get_uuid);
    Ok(found.map_err(|e| failed(&context.name, e))?.bytes.map(|c| c as u8))
}
/// What tells this machine from all others, as long as it runs.
fn host() -> [u8; HOST_BYTES] {
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    std::array::from_fn(|i| text.get(i).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process alone.
    struct Alone;
    impl DevicePeers for Alone {
        fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
            Ok(vec![mine.to_vec()])
        }
        fn agree(&self, _: &str, _: &Call) -> Result<()> {
            Ok(())
        }
        fn timeout(&self) -> Duration {
            Duration::from_secs(20)
        }
    }

    /// Sending waits for who receives, so a rank alone has to ask for both at once.
    #[test]
    fn a_rank_sends_to_itself_and_receives() {
        let Ok(context) = Context::open(0) else { return eprintln!("skipped: there is no GPU") };
        let group = PeersHandle(std::sync::Arc::new(ir::Alone));
        let comm = match comm(&context, &group, &Alone) {
            Err(e) if e.to_string().contains("libnccl.so") => return eprintln!("skipped: {e}"),
            made => made.unwrap(),
        };
        context.enter().unwrap();
        let (numbers, zero) = (Type::new(DType::F32, [4]), Type::new(DType::F32, ir::Shape::scalar()));
        let deal = |op| Deal {
            op,
            dtype: sys::ncclDataType_t::ncclUint8,
            count: numbers.bytes(),
            bytes: numbers.bytes(),
            how: sys::ncclRedOp_t::ncclSum,
            peer: 0,
            rank: 0,
            size: 1,
        };
        let mut got = [0f32; 5];
        // SAFETY: three pieces of memory of their types' sizes, which live until the end.
        unsafe {
            let [from, to, stands] = [16, 16, 4].map(|bytes| cu::malloc_sync(bytes).unwrap());
            cu::memcpy_htod_sync(from, &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
            cu::memcpy_htod_sync(stands, &[7.0f32]).unwrap();
            nccl::group_start().unwrap();
            deal("send").begin(&context, comm, (from, stands), &zero).unwrap();
            deal("recv").begin(&context, comm, (from, to), &numbers).unwrap();
            nccl::group_end().unwrap();
            wait(&context, comm, &group, Alone.timeout()).unwrap();
            cu::memcpy_dtoh_sync(&mut got[..4], to).unwrap();
            cu::memcpy_dtoh_sync(&mut got[4..], stands).unwrap();
            [from, to, stands].into_iter().for_each(|at| cu::free_sync(at).unwrap());
        }
        assert_eq!(got, [1.0, 2.0, 3.0, 4.0, 0.0], "what was sent, and the zero that stands for it");
        println!("NCCL was used");
    }

    #[test]
    fn ranks_without_the_library_or_a_gpu_of_their_own_are_named() {
        let rank = |has: u8, gpu: u8| -> Vec<u8> {
            let place = [gpu; GPU_BYTES + HOST_BYTES];
            [&[has][..], &place, &[7; NAME_BYTES]].concat()
        };
        assert_eq!(checked(&[rank(1, 1), rank(1, 2)], 0).unwrap(), [7; NAME_BYTES]);
        let says = |all: &[Vec<u8>], text: &str| {
            let e = checked(all, 0).unwrap_err().to_string();
            assert!(e.contains(text), "{e}");
        };
        says(&[rank(1, 1), rank(0, 2)], "cannot be loaded on rank 1");
        says(&[rank(0, 1), rank(1, 2)], "cannot be loaded here");
        says(&[rank(1, 1), rank(1, 2), rank(1, 1)], "ranks 0 and 2 use the same GPU");
        says(&[vec![1]], "too little");
    }
}

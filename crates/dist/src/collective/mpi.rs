//! Collectives carried by MPI, for clusters that have a fast one. Processes are started by `mpirun`
//! or its likes.
//!
//! MPI's own calls have no deadline, so that only those are used which begin something, and this
//! file waits. Before each collective the ranks tell each other what they are about to do; there the
//! deadline is an error like any other. What MPI has begun to read or write cannot be taken back: if
//! that passes the deadline, the job is aborted.
#![allow(unsafe_code)]

use super::{Combine, Communicator, Element, Operation, Signature};
use crate::{Error, Result};
use bytemuck::cast_slice;
use half::{bf16, f16};
use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Request};
use mpi::traits::Communicator;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Tests between looks at the clock, and how long to rest when nothing comes.
const SPINS: usize = 500;
const REST: Duration = Duration::from_micros(10);
/// Elements of one call at most: MPI counts in C's `int`.
const COUNT_MAX: usize = 1 << 30;
/// Tags of messages: who forms a group, what is about to be sent, and what is sent.
const HELLO: c_int = 1;
const ABOUT: c_int = 2;
const DATA: c_int = 3;
/// Words of a signature.
const WORDS: usize = 3;

/// MPI is initialized once in a process and left when the process ends.
static UNIVERSE: Mutex<Option<mpi::environment::Universe>> = Mutex::new(None);

/// Leaves MPI: `mpirun` takes processes that end without it for failed.
extern "C" fn leave() {
    drop(UNIVERSE.lock().map(|mut u| u.take()));
}

/// Collectives by MPI.
pub struct Mpi {
    rank: usize,
    world: usize,
    teams: BTreeMap<Vec<usize>, Comm>,
    /// What is received before it takes the place of the data, in words, so that any element is
    /// aligned.
    spare: Vec<u64>,
    is_broken: bool,
}

/// A communicator; they are few and live as long as the process.
#[derive(Clone, Copy)]
struct Comm(MPI_Comm);
// SAFETY: a handle; MPI is initialized so that any thread may use it, one at a time.
unsafe impl Send for Comm {}

impl Mpi {
    /// Initializes MPI, which must have started this process with this number among this many.
    pub fn join(rank: usize, world: usize) -> Result<Mpi> {
        let mut universe = UNIVERSE.lock().map_err(|_| Error::value("MPI failed before"))?;
        if universe.is_none() {
            let (started, _) = mpi::initialize_with_threading(mpi::Threading::Serialized)
                .ok_or_else(|| Error::value("MPI was already initialized in this process, by another library"))?;
            *universe = Some(started);
            // SAFETY: a function without arguments, in which nothing panics.
            unsafe { libc::atexit(leave) };
        }
        let all = universe.as_ref().map(mpi::environment::Universe::world);
        let (own, size) = all.map_or((0, 0), |c| (c.rank() as usize, c.size() as usize));
        if (own, size) != (rank, world) {
            return Err(Error::value(format!(
                "this is rank {rank} of {world}, but MPI's rank {own} of {size}: collectives by MPI need processes \
                 that mpirun started"
            )));
        }
        Ok(Mpi { rank, world, teams: BTreeMap::new(), spare: Vec::new(), is_broken: false })
    }

    /// Runs an operation; an error breaks everything.
    fn operation<T>(&mut self, operation: &Operation, f: impl FnOnce(&mut Mpi, Comm) -> Result<T>) -> Result<T> {
        if self.is_broken {
            return Err(Error::value("collectives by MPI have failed before"));
        }
        let done = self.comm(operation).and_then(|c| f(self, c));
        self.is_broken = done.is_err();
        done
    }
    /// As [`Mpi::operation`], of all ranks: first they agree on what it is.
    fn collective<T>(&mut self, operation: &Operation, f: impl FnOnce(&mut Mpi, Comm) -> Result<T>) -> Result<T> {
        self.operation(operation, |m, comm| {
            let mut words = vec![0u64; WORDS * (operation.group.size() + 1)];
            words[..WORDS].copy_from_slice(&operation.signature.encode());
            let at = words.as_mut_ptr();
            let (ty, each) = (datatype(Element::U64), WORDS as c_int);
            // SAFETY: the words live until the request is done, or for good; the parts do not overlap.
            let all = unsafe { at.add(WORDS) };
            // SAFETY: as above.
            let request =
                begun(|r| unsafe { ffi::MPI_Iallgather(at.cast(), each, ty, all.cast(), each, ty, comm.0, r) })?;
            let words =
                kept(words, finish(request, operation.deadline), || format!("others to call {}", operation.signature))?;
            for (rank, theirs) in words[WORDS..].chunks_exact(WORDS).enumerate() {
                operation.signature.check(rank, &Signature::decode([theirs[0], theirs[1], theirs[2]]))?;
            }
            f(m, comm)
        })
    }

    /// The communicator of a group, made when it is first needed.
    fn comm(&mut self, operation: &Operation) -> Result<Comm> {
        let group = operation.group;
        // SAFETY: a constant of MPI.
        let all = unsafe { ffi::RSMPI_COMM_WORLD };
        if group.size() == self.world && group.ranks().is_sorted() {
            return Ok(Comm(all));
        }
        if let Some(c) = self.teams.get(group.ranks()) {
            return Ok(*c);
        }
        // Making one has no deadline: first check that every rank has called.
        self.greet(operation)?;
        let ranks: Vec<c_int> = group.ranks().iter().map(|r| *r as c_int).collect();
        let tag = ranks.iter().fold(17, |h: c_int, r| (h.wrapping_mul(31) ^ r) & 0x3fff);
        // SAFETY: handles are made, used and given back here; the list outlives the calls.
        let comm = unsafe {
            let (mut whole, mut part, mut comm) = (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_GROUP_NULL, ffi::RSMPI_COMM_NULL);
            said(ffi::MPI_Comm_group(all, &mut whole))?;
            said(ffi::MPI_Group_incl(whole, ranks.len() as c_int, ranks.as_ptr(), &mut part))?;
            said(ffi::MPI_Comm_create_group(all, part, tag, &mut comm))?;
            said(ffi::MPI_Group_free(&mut part))?;
            said(ffi::MPI_Group_free(&mut whole))?;
            Comm(comm)
        };
        self.teams.insert(group.ranks().to_vec(), comm);
        Ok(comm)
    }
    /// Every member of a group says to every other that it is there.
    fn greet(&self, operation: &Operation) -> Result<()> {
        // SAFETY: a constant of MPI.
        let all = unsafe { ffi::RSMPI_COMM_WORLD };
        for other in operation.group.ranks().iter().filter(|r| **r != self.rank) {
            let mut words = vec![0u64; 2];
            let (at, peer, ty) = (words.as_mut_ptr(), *other as c_int, datatype(Element::U64));
            // SAFETY: both words live until both requests are done, or for good.
            let come = begun(|r| unsafe { ffi::MPI_Irecv(at.add(1).cast(), 1, ty, peer, HELLO, all, r) })?;
            // SAFETY: as above.
            let gone = begun(|r| unsafe { ffi::MPI_Isend(at.cast(), 1, ty, peer, HELLO, all, r) })?;
            let done = finish(come, operation.deadline) && finish(gone, operation.deadline);
            kept(words, done, || format!("rank {other} to use its group"))?;
        }
        Ok(())
    }
    /// Room for this many bytes.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        self.spare.resize(bytes.div_ceil(8).max(self.spare.len()), 0);
        &mut bytemuck::cast_slice_mut(&mut self.spare)[..bytes]
    }
    /// Combines elements that MPI knows, in calls that are not too long.
    fn combine(
        &mut self,
        operation: &Operation,
        comm: Comm,
        data: &mut [u8],
        element: Element,
        how: Combine,
    ) -> Result<()> {
        let (ty, op) = (datatype(element), operator(how));
        for part in data.chunks_mut(COUNT_MAX * element.size()) {
            let count = (part.len() / element.size()) as c_int;
            let room = self.room(part.len());
            room.copy_from_slice(part);
            // SAFETY: both are borrowed until the request is done.
            let request = begun(|r| unsafe {
                ffi::MPI_Iallreduce(room.as_ptr().cast(), part.as_mut_ptr().cast(), count, ty, op, comm.0, r)
            })?;
            surely(request, operation);
        }
        Ok(())
    }
}

impl Communicator for Mpi {
    fn all_reduce(&mut self, operation: &Operation, data: &mut [u8], how: Combine) -> Result<()> {
        self.collective(operation, |m, comm| match operation.element {
            // MPI does not know them: combined in f32, rounded once.
            Element::Bf16 | Element::F16 => {
                let mut wide = widened(operation.element, data);
                m.combine(operation, comm, bytemuck::cast_slice_mut(&mut wide), Element::F32, how)?;
                rounded(operation.element, &wide, data);
                Ok(())
            }
            element => m.combine(operation, comm, data, element, how),
        })
    }
    fn reduce_scatter(&mut self, operation: &Operation, data: &mut [u8], how: Combine) -> Result<Range<usize>> {
        let (n, size) = (operation.group.size(), operation.element.size());
        if matches!(operation.element, Element::Bf16 | Element::F16) || data.len() / size > COUNT_MAX {
            self.all_reduce(operation, data, how)?;
            let part = data.len() / n;
            return Ok(operation.group.me() * part..(operation.group.me() + 1) * part);
        }
        self.collective(operation, |m, comm| {
            let (part, ty, op) = (data.len() / n, datatype(operation.element), operator(how));
            let room = m.room(part);
            // SAFETY: both are borrowed until the request is done.
            let request = begun(|r| unsafe {
                let (from, to) = (data.as_ptr().cast(), room.as_mut_ptr().cast());
                ffi::MPI_Ireduce_scatter_block(from, to, (part / size) as c_int, ty, op, comm.0, r)
            })?;
            surely(request, operation);
            data[..part].copy_from_slice(room);
            Ok(0..part)
        })
    }
    fn all_gather(&mut self, operation: &Operation, data: &mut [u8]) -> Result<()> {
        self.collective(operation, |m, comm| {
            let part = data.len() / operation.group.size();
            let (count, ty, me) = (short(part)?, datatype(Element::U8), operation.group.me());
            let room = m.room(part);
            room.copy_from_slice(&data[me * part..][..part]);
            // SAFETY: both are borrowed until the request is done.
            let request = begun(|r| unsafe {
                ffi::MPI_Iallgather(room.as_ptr().cast(), count, ty, data.as_mut_ptr().cast(), count, ty, comm.0, r)
            })?;
            surely(request, operation);
            Ok(())
        })
    }
    fn broadcast(&mut self, operation: &Operation, data: &mut [u8], root: usize) -> Result<()> {
        self.collective(operation, |_, comm| {
            for part in data.chunks_mut(COUNT_MAX) {
                let (at, count, ty) = (part.as_mut_ptr(), part.len() as c_int, datatype(Element::U8));
                // SAFETY: the bytes are borrowed until the request is done.
                let request = begun(|r| unsafe { ffi::MPI_Ibcast(at.cast(), count, ty, root as c_int, comm.0, r) })?;
                surely(request, operation);
            }
            Ok(())
        })
    }
    fn all_to_all(&mut self, operation: &Operation, send: &[u8], receive: &mut [u8]) -> Result<()> {
        self.collective(operation, |_, comm| {
            let (count, ty) = (short(send.len() / operation.group.size())?, datatype(Element::U8));
            let (from, to) = (send.as_ptr(), receive.as_mut_ptr());
            // SAFETY: both are borrowed until the request is done.
            let request =
                begun(|r| unsafe { ffi::MPI_Ialltoall(from.cast(), count, ty, to.cast(), count, ty, comm.0, r) })?;
            surely(request, operation);
            Ok(())
        })
    }
    fn send(&mut self, operation: &Operation, data: &[u8], to: usize) -> Result<()> {
        self.operation(operation, |_, comm| {
            let words = operation.signature.encode().to_vec();
            let (at, peer, ty) = (words.as_ptr(), to as c_int, datatype(Element::U64));
            // SAFETY: the words live until the request is done, or for good.
            let request = begun(|r| unsafe { ffi::MPI_Isend(at.cast(), WORDS as c_int, ty, peer, ABOUT, comm.0, r) })?;
            kept(words, finish(request, operation.deadline), || format!("rank {to} to receive"))?;
            for part in data.chunks(COUNT_MAX) {
                let (at, count, ty) = (part.as_ptr(), part.len() as c_int, datatype(Element::U8));
                // SAFETY: the bytes are borrowed until the request is done.
                let request = begun(|r| unsafe { ffi::MPI_Isend(at.cast(), count, ty, peer, DATA, comm.0, r) })?;
                surely(request, operation);
            }
            Ok(())
        })
    }
    fn receive(&mut self, operation: &Operation, data: &mut [u8], from: usize) -> Result<()> {
        self.operation(operation, |_, comm| {
            let mut words = vec![0u64; WORDS];
            let (at, peer, ty) = (words.as_mut_ptr(), from as c_int, datatype(Element::U64));
            // SAFETY: the words live until the request is done, or for good.
            let request = begun(|r| unsafe { ffi::MPI_Irecv(at.cast(), WORDS as c_int, ty, peer, ABOUT, comm.0, r) })?;
            let words = kept(words, finish(request, operation.deadline), || format!("rank {from} to send"))?;
            operation.signature.check(from, &Signature::decode([words[0], words[1], words[2]]))?;
            for part in data.chunks_mut(COUNT_MAX) {
                let (at, count, ty) = (part.as_mut_ptr(), part.len() as c_int, datatype(Element::U8));
                // SAFETY: the bytes are borrowed until the request is done.
                let request = begun(|r| unsafe { ffi::MPI_Irecv(at.cast(), count, ty, peer, DATA, comm.0, r) })?;
                surely(request, operation);
            }
            Ok(())
        })
    }
}

/// What MPI answered.
fn said(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Lost(format!("MPI answered with error {code}"))) }
}
fn begun(f: impl FnOnce(*mut MPI_Request) -> c_int) -> Result<MPI_Request> {
    // SAFETY: a constant of MPI.
    let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
    said(f(&mut request))?;
    Ok(request)
}
/// Waits for a request; false when the deadline passes or MPI fails.
fn finish(mut request: MPI_Request, deadline: Instant) -> bool {
    loop {
        for _ in 0..SPINS {
            let mut is_done = 0;
            // SAFETY: the request is one that was begun.
            let code = unsafe { ffi::MPI_Test(&mut request, &mut is_done, ffi::RSMPI_STATUS_IGNORE) };
            if is_done != 0 || code != 0 {
                return code == 0;
            }
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(REST);
    }
}
/// The words of a request; if it did not end they are left to MPI for good.
fn kept(words: Vec<u64>, is_done: bool, what: impl FnOnce() -> String) -> Result<Vec<u64>> {
    if is_done {
        return Ok(words);
    }
    std::mem::forget(words);
    Err(Error::Deadline(format!("waiting for {}", what())))
}
/// Waits for a request that has the caller's memory.
fn surely(request: MPI_Request, operation: &Operation) {
    if !finish(request, operation.deadline) {
        eprintln!("talweg: the deadline passed in the middle of {}: MPI cannot take that back", operation.signature);
        // SAFETY: ends every process of the job.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, 1) };
        std::process::abort();
    }
}
fn short(count: usize) -> Result<c_int> {
    let fits = c_int::try_from(count);
    fits.map_err(|_| Error::value(format!("MPI exchanges at most {} bytes with each rank, not {count}", c_int::MAX)))
}

fn datatype(element: Element) -> MPI_Datatype {
    // SAFETY: constants of MPI.
    unsafe {
        match element {
            Element::F32 => ffi::RSMPI_FLOAT,
            Element::F64 => ffi::RSMPI_DOUBLE,
            Element::I8 => ffi::RSMPI_INT8_T,
            Element::I16 => ffi::RSMPI_INT16_T,
            Element::I32 => ffi::RSMPI_INT32_T,
            Element::I64 => ffi::RSMPI_INT64_T,
            Element::U8 => ffi::RSMPI_UINT8_T,
            // Half floats are only moved.
            Element::U16 | Element::Bf16 | Element::F16 => ffi::RSMPI_UINT16_T,
            Element::U32 => ffi::RSMPI_UINT32_T,
            Element::U64 => ffi::RSMPI_UINT64_T,
        }
    }
}
fn operator(how: Combine) -> ffi::MPI_Op {
    // SAFETY: constants of MPI.
    unsafe {
        match how {
            Combine::Sum => ffi::RSMPI_SUM,
            Combine::Prod => ffi::RSMPI_PROD,
            Combine::Max => ffi::RSMPI_MAX,
            Combine::Min => ffi::RSMPI_MIN,
        }
    }
}
fn widened(element: Element, data: &[u8]) -> Vec<f32> {
    match element {
        Element::Bf16 => cast_slice(data).iter().map(|x: &bf16| x.to_f32()).collect(),
        _ => cast_slice(data).iter().map(|x: &f16| x.to_f32()).collect(),
    }
}
fn rounded(element: Element, wide: &[f32], data: &mut [u8]) {
    match element {
        Element::Bf16 => {
            let to: &mut [bf16] = bytemuck::cast_slice_mut(data);
            to.iter_mut().zip(wide).for_each(|(t, x)| *t = bf16::from_f32(*x));
        }
        _ => {
            let to: &mut [f16] = bytemuck::cast_slice_mut(data);
            to.iter_mut().zip(wide).for_each(|(t, x)| *t = f16::from_f32(*x));
        }
    }
}

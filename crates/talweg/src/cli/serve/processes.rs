//! Several processes behind one port. The first process binds the port and starts the others, which accept from it. One
//! that ends is started again; connections that wait to be accepted are taken by those that live.
//!
//! The sockets are passed on as the standard input and output of a process, as inetd does.

use super::{Options, failed};
use crate::cli::Program;
use crate::{Result, interrupt};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often processes are looked at.
const PATROL: Duration = Duration::from_millis(20);
/// A process that lived shorter is started again only after as long.
const BACKOFF: Duration = Duration::from_secs(1);
/// How long a process may take to end after it has drained.
const END: Duration = Duration::from_secs(5);

/// The sockets that the first process passes on.
pub fn inherited(o: &Options) -> io::Result<Vec<TcpListener>> {
    let mut sockets = vec![io::stdin().as_fd().try_clone_to_owned()?];
    if o.grpc_port.is_some() {
        sockets.push(io::stdout().as_fd().try_clone_to_owned()?);
    }
    Ok(sockets.into_iter().map(TcpListener::from).collect())
}

/// Sockets and command of the processes.
struct Start<'a> {
    command: Vec<OsString>,
    sockets: &'a [TcpListener],
    directory: PathBuf,
}

impl Start<'_> {
    fn process(&self, number: usize) -> io::Result<Process> {
        let pass = |socket: &TcpListener| socket.try_clone().map(|s| Stdio::from(OwnedFd::from(s)));
        let mut member = OsString::from(format!("{number}:"));
        member.push(&self.directory);
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg("--member").arg(member).stdin(pass(&self.sockets[0])?);
        command.stdout(self.sockets.get(1).map_or(Ok(Stdio::null()), pass)?);
        let socket = self.directory.join(format!("{number}.sock"));
        // The socket that a killed process has left would say that the new one is ready.
        let _ = std::fs::remove_file(&socket);
        Ok(Process { child: command.spawn()?, since: Instant::now(), socket })
    }
}

struct Process {
    child: Child,
    since: Instant,
    socket: PathBuf,
}

impl Process {
    fn is_ready(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }
    fn signal(&self, signal: Signal) {
        // It may have ended meanwhile.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

/// Removes the directory of the sockets.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn directory() -> io::Result<Directory> {
    let path = std::env::temp_dir().join(format!("talweg-serve-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(Directory(path))
}

/// Starts the processes and keeps them running until SIGINT or SIGTERM.
pub fn run(o: &Options, program: &Program, args: &[OsString]) -> Result<()> {
    let began = Instant::now();
    let is_told = interrupt()?;
    let bind = |a: std::net::SocketAddr| TcpListener::bind(a).map_err(|e| failed(format!("{a}: {e}")));
    let sockets = o.addresses().into_iter().map(bind).collect::<Result<Vec<_>>>()?;
    let directory = directory().map_err(failed)?;
    let command = program.own.iter().chain(args.iter().skip(1)).cloned().collect();
    let start = Start { command, sockets: &sockets, directory: directory.0.clone() };
    let mut all = Vec::new();
    let kept = keep(o, &start, &mut all, || is_told.load(Ordering::Relaxed), began);
    let is_drained = end(o, &mut all);
    kept.and(if is_drained { Ok(()) } else { Err(failed("some requests took longer than --drain")) })
}

/// Runs the processes until told to end, or until one cannot start.
fn keep(o: &Options, start: &Start, all: &mut Vec<Process>, is_told: impl Fn() -> bool, began: Instant) -> Result<()> {
    for number in 0..o.processes() {
        all.push(start.process(number).map_err(failed)?);
    }
    let mut is_up = false;
    while !is_told() {
        if !is_up && all.iter().all(Process::is_ready) {
            is_up = true;
            for socket in start.sockets {
                let address = socket.local_addr().map_err(failed)?;
                let seconds = began.elapsed().as_secs_f64();
                println!("{} processes at {}://{address}/ after {seconds:.2} s", o.processes(), o.scheme());
            }
        }
        for (number, process) in all.iter_mut().enumerate() {
            let Some(status) = process.child.try_wait().map_err(failed)? else { continue };
            if !is_up {
                return Err(failed(format!("process {number} could not start: {status}")));
            }
            if process.since.elapsed() >= BACKOFF {
                eprintln!("talweg serve: process {number} ended with {status} and is started again");
                *process = start.process(number).map_err(failed)?;
            }
        }
        std::thread::sleep(PATROL);
    }
    Ok(())
}

/// Has all processes drain; returns whether all did in time.
fn end(o: &Options, all: &mut [Process]) -> bool {
    all.iter().for_each(|p| p.signal(Signal::TERM));
    let limit = Instant::now() + Duration::try_from_secs_f64(o.drain).unwrap_or_default() + END;
    let mut is_drained = true;
    for process in all {
        is_drained &= loop {
            match process.child.try_wait() {
                // One that has just been started ends by the signal itself: it has no request yet.
                Ok(Some(status)) => break status.success() || status.signal() == Some(Signal::TERM.as_raw()),
                Ok(None) if Instant::now() < limit => std::thread::sleep(PATROL),
                _ => {
                    process.signal(Signal::KILL);
                    let _ = process.child.wait();
                    break false;
                }
            }
        };
    }
    is_drained
}

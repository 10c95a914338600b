//! TLS in a program that was built without it: there is no certificate, and so no session.

use crate::{Error, Result};
use std::io::{self, IoSlice};
use std::path::Path;

/// The name that every process's certificate must have among its alternative names.
pub const NAME: &str = "talweg";

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Tls {}

impl Tls {
    pub fn load(folder: &Path) -> Result<Tls> {
        let e = "this program was built without TLS: build it with `--features tls`";
        Err(Error::Refused(format!("{}: {e}", folder.display())))
    }
    pub fn caller(&self) -> Result<Session> {
        match *self {}
    }
    pub fn listener(&self) -> Result<Session> {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum Session {}

impl Session {
    pub fn read(&self, _: &mut [u8], _: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        match *self {}
    }
    pub fn write(&self, _: &[IoSlice<'_>], _: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        match *self {}
    }
    pub fn write_now(&self, _: &[IoSlice<'_>], _: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        match *self {}
    }
    pub fn flush(&self, _: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        match *self {}
    }
    pub fn owes(&self) -> bool {
        match *self {}
    }
    pub fn handshake(
        &self,
        _: impl FnMut(&mut [u8]) -> io::Result<usize>,
        _: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        match *self {}
    }
}

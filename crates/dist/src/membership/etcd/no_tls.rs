//! TLS to a cluster in a program that was built without it: there is no session.

use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::net::TcpStream;

#[derive(Clone)]
pub(crate) enum Tls {}

impl Tls {
    pub fn load(ca: &str, _: Option<(&str, &str)>) -> Result<Tls> {
        Err(Error::value(format!("{ca}: this program was built without TLS: build it with `--features tls`")))
    }
    pub fn session(&self, _: &str, _: TcpStream) -> io::Result<Session> {
        match *self {}
    }
}

pub(crate) enum Session {}

impl Session {
    pub fn socket(&self) -> &TcpStream {
        match *self {}
    }
}
impl Read for Session {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}
impl Write for Session {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }
    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

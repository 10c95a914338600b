//! The worker's sockets to the servers: sending, receiving, fail-over to the next map.

use super::Store;
use super::places::Places;
use crate::membership::controller;
use crate::membership::coordinator::cut_max;
use crate::store::client::{Client, Servers};
use crate::store::keys::SentLists;
use crate::store::message::{Envelope, Message, Peer, Update};
use crate::store::server::partition::Outbox;
use crate::store::wire;
use crate::{Error, Map, Result, kinds};
use net::{Address, Connection, Hello};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one message may take.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connecting may take before the map is checked again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a server may owe a reply before the map is checked again.
const POLL: Duration = Duration::from_millis(250);
/// Pause before a request that a server did not take is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(50);
/// Elements of a message that is batched with others, and how many messages a batch holds at most.
const SHORT: usize = 2048;
const BATCH_MAX: usize = 64;

impl Store {
    /// Takes what servers have sent of their own accord.
    pub(super) fn listen(&mut self, deadline: Instant) -> Result<()> {
        let servers: Servers = self.links.keys().copied().collect();
        for server in servers {
            while self.hear_by(server, &mut Places::default(), Instant::now(), deadline)? {}
        }
        Ok(())
    }

    /// Sends, at the latest when a caller waits for the response; few and short messages go
    /// together.
    pub(crate) fn send(&mut self, out: Outbox, deadline: Instant) -> Result<()> {
        self.send_from(out, &|_| None, deadline)
    }
    /// As [`Store::send`]; `elements` says where else the elements of an update lie, if they do.
    pub(super) fn send_from<'a>(
        &mut self,
        out: Outbox,
        elements: &dyn Fn(&Update) -> Option<&'a [f32]>,
        deadline: Instant,
    ) -> Result<()> {
        let is_long = out.iter().any(|(_, e)| e.elements() > SHORT);
        self.outbox.extend(out);
        if is_long || self.outbox.len() >= BATCH_MAX { self.flush_from(elements, deadline) } else { Ok(()) }
    }
    /// Sends what waits; a server that cannot be reached is left out, and found missing when it
    /// should answer.
    pub(super) fn flush(&mut self, deadline: Instant) -> Result<()> {
        self.flush_from(&|_| None, deadline)
    }
    pub(super) fn flush_from<'a>(
        &mut self,
        elements: &dyn Fn(&Update) -> Option<&'a [f32]>,
        deadline: Instant,
    ) -> Result<()> {
        while let Some((to, _)) = self.outbox.first() {
            let to = *to;
            let Peer::Server(server) = to else { return Err(Error::refused(format!("{to:?} is no server"))) };
            if self.links.contains_key(&server) || self.connect(server, deadline)? {
                let (worker, told) = (self.client.worker(), self.told.entry(server).or_default());
                let messages = self.outbox.iter().filter(|(peer, _)| *peer == to).map(|(_, e)| {
                    let (mut h, mut parts) = e.encode(worker);
                    told.shorten(&mut h, &mut parts);
                    let update = if let Message::Push { update, .. } = &e.message { update.as_ref() } else { None };
                    (h, parts, update.and_then(elements))
                });
                let link = self.links.get_mut(&server);
                let sent = link.map(|link| wire::send_together(link.halves().0, messages, deadline));
                if sent.is_some_and(|sent| sent.is_err()) {
                    self.links.remove(&server);
                }
            }
            self.outbox.retain(|(peer, _)| *peer != to);
        }
        Ok(())
    }
    /// Where a server listens, if it does; while the membership store does not answer, where it
    /// last did.
    pub(super) fn address_of(&mut self, server: u32, deadline: Instant) -> Result<Option<Address>> {
        let known = self.addresses.get(&server).cloned();
        let until = if known.is_some() { deadline.min(Instant::now() + CONNECT_TIMEOUT) } else { deadline };
        let address = match self.member.get(&controller::server_key(server), until) {
            Ok((_, text)) => text.map(|t| String::from_utf8_lossy(&t).parse::<Address>()).transpose()?,
            Err(e) if e.is_late() && known.is_some() => return Ok(known),
            Err(e) => return Err(e),
        };
        address.iter().for_each(|a| drop(self.addresses.insert(server, a.clone())));
        Ok(address)
    }
    pub(super) fn connect(&mut self, server: u32, deadline: Instant) -> Result<bool> {
        let Some(address) = self.address_of(server, deadline)? else { return Ok(false) };
        let hello = Hello::new("worker", self.client.worker());
        let soon = deadline.min(Instant::now() + CONNECT_TIMEOUT);
        match Connection::connect(&address, &hello, self.secret.as_ref(), soon) {
            Ok(mut c) => {
                c.detect_loss(cut_max())?;
                self.map_watcher.watch(server, &mut c)?;
                self.links.insert(server, c);
                self.told.insert(server, SentLists::default());
                Ok(true)
            }
            Err(net::Error::Refused(e)) => Err(Error::refused(format!("server {server}: {e}"))),
            Err(_) => Ok(false),
        }
    }

    /// Takes a newer map, if there is one; true if there was.
    pub(super) fn look_for_map(&mut self, deadline: Instant) -> Result<bool> {
        let Some((version, bytes)) = self.map_watcher.newer(self.map_version)? else { return Ok(false) };
        self.take_map(version, &bytes, deadline)?;
        Ok(true)
    }
    /// Takes the newest map, for one who has nothing to ask the servers.
    pub fn look(&mut self) -> Result<()> {
        let deadline = self.deadline();
        match self.member.get(controller::MAP, deadline)? {
            (version, Some(bytes)) if version > self.map_version => self.take_map(version, &bytes, deadline),
            _ => Ok(()),
        }
    }
    pub(super) fn await_map(&mut self, deadline: Instant) -> Result<()> {
        let (version, bytes) = self.member.wait(controller::MAP, self.map_version, deadline)?;
        self.take_map(version, &bytes, deadline)
    }
    pub(super) fn take_map(&mut self, version: u64, bytes: &[u8], deadline: Instant) -> Result<()> {
        self.map_version = version;
        let map = Arc::new(Map::decode(bytes)?);
        // Whatever waits is unanswered, and is said again.
        self.outbox.clear();
        self.links.retain(|s, _| map.names(*s));
        self.hang_up_on_answers();
        let e = Envelope { partition: 0, epoch: map.epoch, message: Message::Map(map) };
        let out = self.client.handle(Peer::Coordinator, e)?;
        self.send(out, deadline)
    }

    /// Ends links on which answers may be on their way, before everything is said again: a server
    /// that writes does not read, and the two would wait for each other.
    pub(super) fn hang_up_on_answers(&mut self) {
        let owing = self.client.questioned();
        self.links.retain(|s, _| !owing.contains(s));
    }

    pub(super) fn pump_volatile(&mut self, most: u64, deadline: Instant) -> Result<()> {
        let done = move |c: &Client| c.volatile_steps() <= most;
        self.pump_from(done, Client::volatile_servers, &mut Places::default(), deadline, "waiting for copies")
    }
    pub(super) fn pump(&mut self, done: impl Fn(&Client) -> bool, deadline: Instant, doing: &str) -> Result<()> {
        self.pump_from(done, Client::debtors, &mut Places::default(), deadline, doing)
    }
    /// Reads answers until `done`; `owing` says who has to answer.
    pub(crate) fn pump_from(
        &mut self,
        done: impl Fn(&Client) -> bool,
        owing: impl Fn(&Client) -> Servers,
        places: &mut Places<'_, '_>,
        deadline: Instant,
        doing: &str,
    ) -> Result<()> {
        while !done(&self.client) {
            let moved =
                if Instant::now() < deadline { self.pump_once(&done, &owing, places, deadline) } else { Ok(()) };
            match moved {
                Ok(()) => {}
                Err(e) if e.is_late() => {}
                failed => return failed,
            }
            if Instant::now() >= deadline && !done(&self.client) {
                let full = self.client.full();
                let why =
                    if full.is_empty() { String::new() } else { format!("; the disks of servers {full:?} are full") };
                return Err(Error::Deadline(format!("{doing} ({:?} owe an answer{why})", owing(&self.client))));
            }
        }
        Ok(())
    }
    /// One round: a message from each server that owes one.
    pub(super) fn pump_once(
        &mut self,
        done: &impl Fn(&Client) -> bool,
        owing: &impl Fn(&Client) -> Servers,
        places: &mut Places<'_, '_>,
        deadline: Instant,
    ) -> Result<()> {
        if self.client.needs_map() && !self.look_for_map(deadline)? && self.resent.elapsed() > RESEND_AFTER {
            self.resent = Instant::now();
            self.hang_up_on_answers();
            self.outbox.clear();
            let out = self.client.resend(None);
            self.send(out, deadline)?;
        }
        self.flush(deadline)?;
        for server in owing(&self.client) {
            if !self.hear(server, places, deadline)? {
                return self.reconnect(server, deadline);
            }
            if done(&self.client) {
                break;
            }
        }
        Ok(())
    }
    /// Reads one message from a server; false if it is lost or says nothing.
    pub(super) fn hear(&mut self, server: u32, places: &mut Places<'_, '_>, deadline: Instant) -> Result<bool> {
        self.hear_by(server, places, deadline.min(Instant::now() + POLL), deadline)
    }
    pub(super) fn hear_by(
        &mut self,
        server: u32,
        places: &mut Places<'_, '_>,
        until: Instant,
        deadline: Instant,
    ) -> Result<bool> {
        let Some(link) = self.links.get_mut(&server) else { return Ok(false) };
        let receiver = link.receiver();
        let soon = deadline.min(Instant::now() + MESSAGE_TIMEOUT);
        let h = match receiver.header(until) {
            Ok(h) => h,
            Err(net::Error::Deadline(_)) => return Ok(false),
            Err(_) => {
                self.links.remove(&server);
                return Ok(false);
            }
        };
        if h.kind == kinds::store::VALUE
            && !self.client.keeps()
            && let Some(place) = places.get(h.request).filter(|p| 4 * p.len() == h.length as usize)
        {
            let read = receiver.payload_into(bytemuck::cast_slice_mut(place), soon);
            if read.is_err() {
                self.links.remove(&server);
            } else {
                places.mark_filled(h.request);
                self.client.answered(h.request, h.clock);
            }
            return Ok(read.is_ok());
        }
        let Ok(payload) = wire::receive(receiver, &h, soon) else {
            self.links.remove(&server);
            return Ok(false);
        };
        let out = self.client.handle(Peer::Server(server), Envelope::decode(&h, payload)?)?;
        self.send(out, deadline)?;
        Ok(true)
    }
    /// A server did not answer: perhaps another has taken over, perhaps only the link was lost.
    pub(super) fn reconnect(&mut self, server: u32, deadline: Instant) -> Result<()> {
        if self.look_for_map(deadline)? || self.links.contains_key(&server) {
            return Ok(());
        }
        if self.connect(server, deadline)? {
            self.outbox.retain(|(to, _)| *to != Peer::Server(server));
            let out = self.client.resend(Some(server));
            self.send(out, deadline)
        } else {
            std::thread::sleep(Duration::from_millis(10));
            Ok(())
        }
    }
}

//! Links between the workers of one group: who calls whom, and a watch over the membership store
//! that ends what is in progress in a group that is over.

use crate::collective::Mesh;
use crate::membership::Member;
use crate::membership::controller::{self, View};
use crate::membership::coordinator::cut_max;
use crate::membership::publisher::FOREVER;
use crate::{Error, Result};
use net::{Address, Connection, Hello, Listener, Secret, Sender};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one call may take before it is asked whether the group is still wanted.
const CALLING: Duration = Duration::from_secs(2);
/// How long an operation may go on in a group that is over. A lost peer resets its connections, so
/// this is for peers that hang; and a peer that has left in peace may have sent its last bytes.
const GRACE: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Arrivals {
    /// Epochs up to this one are over: calls for them are refused.
    over: u64,
    waiting: BTreeMap<(u64, u32), Connection>,
}

/// Where the others call.
#[derive(Clone, Default)]
pub(crate) struct Acceptor(Arc<(Mutex<Arrivals>, Condvar)>);

impl Acceptor {
    /// Listens from now on; answers where.
    pub fn open(listen: &Address, secret: Option<Secret>) -> Result<(Acceptor, Address)> {
        let listener = Listener::bind(listen, secret)?;
        let (acceptor, address) = (Acceptor::default(), listener.address().clone());
        let inside = acceptor.clone();
        // Who cannot prove itself, or is no peer, is simply not let in.
        listener.serve(5 * CALLING, |_| {}, move |c| inside.admit(c))?;
        Ok((acceptor, address))
    }
    fn admit(&self, c: Connection) {
        let Some(epoch) = c.peer().role.strip_prefix("peer ").and_then(|e| e.parse().ok()) else { return };
        let mut arrivals = self.0.0.lock();
        if epoch > arrivals.over {
            arrivals.waiting.insert((epoch, c.peer().id), c);
            self.0.1.notify_all();
        }
    }
    /// Refuses calls for this epoch or an earlier one.
    fn end(&self, epoch: u64) {
        let mut arrivals = self.0.0.lock();
        arrivals.over = arrivals.over.max(epoch);
        arrivals.waiting.retain(|(e, _), _| *e > epoch);
    }
    fn take(&self, epoch: u64, rank: u32, deadline: Instant, is_over: &dyn Fn() -> bool) -> Result<Connection> {
        let (lock, bell) = &*self.0;
        let mut arrivals = lock.lock();
        loop {
            if let Some(c) = arrivals.waiting.remove(&(epoch, rank)) {
                return Ok(c);
            }
            if is_over() || Instant::now() >= deadline {
                return Err(Error::Deadline(format!("waiting for worker {rank}")));
            }
            bell.wait_until(&mut arrivals, deadline.min(Instant::now() + Duration::from_millis(20)));
        }
    }
}

#[derive(Default)]
struct ViewState {
    /// The newest group's epoch.
    epoch: u64,
    /// Whether a worker waits to join.
    waits: bool,
    /// Whether a member is missing that may still come.
    misses: bool,
    /// Whether the membership store is gone.
    lost: bool,
    /// The group that is used, and handles to end what is in progress in it.
    used: Option<(u64, Vec<Sender>)>,
}

/// Hears at once when the group changes.
pub(crate) struct ViewWatcher {
    news: Arc<Mutex<ViewState>>,
    line: Arc<Member>,
}

impl ViewWatcher {
    pub fn start(line: Member) -> ViewWatcher {
        let (news, line) = (Arc::new(Mutex::new(ViewState::default())), Arc::new(line));
        let (heard, listening) = (news.clone(), line.clone());
        std::thread::spawn(move || {
            let mut version = 0;
            while let Ok((newer, text)) = listening.wait(controller::NEWS, version, Instant::now() + FOREVER) {
                version = newer;
                let text = String::from_utf8_lossy(&text);
                let mut numbers = text.split(' ').map(|n| n.parse::<u64>().unwrap_or(0));
                let mut news = heard.lock();
                let mut next = || numbers.next().unwrap_or(0);
                (news.epoch, news.waits, news.misses) = (next(), next() > 0, next() > 0);
                if news.is_over() {
                    drop(news);
                    std::thread::sleep(GRACE);
                    heard.lock().end();
                }
            }
            let mut news = heard.lock();
            (news.lost, news.epoch) = (true, u64::MAX);
            news.end();
        });
        ViewWatcher { news, line }
    }
    /// True if there is a newer group than that of `epoch`.
    pub fn is_over(&self, epoch: u64) -> bool {
        self.news.lock().epoch > epoch
    }
    /// True if a worker waits to join.
    pub fn waits(&self) -> bool {
        self.news.lock().waits
    }
    /// Reports whether a worker waits to join, and whether a member is missing that may still come, once
    /// what is known is as new as a group.
    pub fn absent(&self) -> impl Fn(u64, Instant) -> (bool, bool) + use<> {
        let news = self.news.clone();
        move |epoch, deadline| loop {
            let known = news.lock();
            if known.epoch >= epoch || Instant::now() >= deadline {
                return (known.waits, known.misses);
            }
            drop(known);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    /// An error if the membership store is gone: the members of the job are unknown.
    pub fn check(&self) -> Result<()> {
        if self.news.lock().lost {
            let e = "the membership store is gone, or has taken this process for dead";
            return Err(Error::Lost(e.to_string()));
        }
        Ok(())
    }
    fn uses(&self, epoch: u64, handles: Vec<Sender>) {
        self.news.lock().used = Some((epoch, handles));
    }
}
impl Drop for ViewWatcher {
    fn drop(&mut self) {
        self.line.close();
    }
}

impl ViewState {
    fn is_over(&self) -> bool {
        self.used.as_ref().is_some_and(|(epoch, _)| *epoch < self.epoch)
    }
    /// Ends the group that is used, if it is over.
    fn end(&mut self) {
        if self.is_over() {
            self.used.take().into_iter().flat_map(|(_, handles)| handles).for_each(|h| h.close());
        }
    }
}

/// Forms a group: calls the members before this one and waits for those after it.
pub(crate) fn mesh(
    view: &View,
    rank: u32,
    acceptor: &Acceptor,
    watch: &ViewWatcher,
    secret: Option<&Secret>,
    deadline: Instant,
) -> Result<Mesh> {
    let formed = links(view, rank, acceptor, secret, deadline, &|| watch.is_over(view.epoch));
    // Calls for epochs that are over are refused.
    acceptor.end(view.epoch);
    let (me, links) = formed?;
    links.iter().flatten().try_for_each(|l| l.detect_loss(cut_max()))?;
    let mut group = Mesh::new(me, view.epoch, links)?;
    watch.uses(view.epoch, group.handles()?);
    Ok(group)
}

/// The links of a group, and this member's place in it; given up when `is_over` says so.
pub(crate) fn links(
    view: &View,
    rank: u32,
    acceptor: &Acceptor,
    secret: Option<&Secret>,
    deadline: Instant,
    is_over: &dyn Fn() -> bool,
) -> Result<(usize, Vec<Option<Connection>>)> {
    let role = format!("peer {}", view.epoch);
    let (mut me, mut links) = (view.workers.len(), Vec::with_capacity(view.workers.len()));
    for (i, (other, address)) in view.workers.iter().enumerate() {
        links.push(if *other == rank {
            me = i;
            None
        } else if *other < rank {
            let hello = Hello::new(&role, rank);
            let to: Address = address.parse()?;
            Some(call(&to, &hello, secret, deadline, is_over)?)
        } else {
            Some(acceptor.take(view.epoch, *other, deadline, is_over)?)
        });
    }
    Ok((me, links))
}

/// Calls again while the other end does not answer but is believed to be there.
fn call(
    to: &Address,
    hello: &Hello,
    secret: Option<&Secret>,
    deadline: Instant,
    is_over: impl Fn() -> bool,
) -> Result<Connection> {
    loop {
        let soon = deadline.min(Instant::now() + CALLING);
        match Connection::connect(to, hello, secret, soon) {
            Err(net::Error::Deadline(_)) if Instant::now() < deadline && !is_over() => {}
            done => return Ok(done?),
        }
    }
}

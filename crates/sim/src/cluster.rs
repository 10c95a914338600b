//! Devices and the links between them, in a small part of TOML: sections, lists of sections, numbers and words.

use crate::{Error, Result};
use std::collections::BTreeMap;

/// A cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Operations a second in 16 bits, at most.
    pub flops: f64,
    /// The same in 32 bits.
    pub flops_f32: f64,
    /// Seconds to start a kernel.
    pub launch: f64,
    /// Whether the devices of a node are one processor, which they share.
    pub is_shared: bool,
    /// Whether it is the machine at hand: its programs are run instead of estimated.
    pub is_measured: bool,
    /// Seconds of regions that were measured, by what they compute.
    pub kernels: BTreeMap<String, f64>,
    /// Bytes of memory.
    pub memory: f64,
    /// Bytes a second from memory.
    pub bandwidth: f64,
    /// Share of the peak that a large matrix product reaches.
    pub product: f64,
    /// Operations of the product that reaches half of that share.
    pub half: f64,
    /// Share of the memory's bandwidth that loops reach.
    pub stream: f64,
    /// Links, from the inside out.
    pub levels: Vec<Level>,
    /// Price of a device for an hour.
    pub price: f64,
    /// Hours that a device runs between two failures.
    pub mtbf_hours: f64,
    /// Seconds that a checkpoint takes.
    pub checkpoint_s: f64,
    /// Seconds that a restart takes.
    pub restart_s: f64,
    /// What stragglers add to a step, as a share.
    pub jitter: f64,
}

/// Links of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Devices that they join.
    pub size: usize,
    /// Seconds before the first byte.
    pub latency: f64,
    /// Bytes a second in one direction, as sold.
    pub bandwidth: f64,
    /// Share of it that is reached.
    pub share: f64,
    /// Who has one.
    pub per: Per,
}

/// Who has a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Each device.
    Device,
    /// All devices of a node share one.
    Node,
}

/// The clusters that are included, by name.
pub fn clusters() -> [(&'static str, &'static str); 5] {
    [
        ("a100", include_str!("../clusters/a100.toml")),
        ("a100-800g", include_str!("../clusters/a100-800g.toml")),
        ("h100", include_str!("../clusters/h100.toml")),
        ("h200", include_str!("../clusters/h200.toml")),
        ("ethernet", include_str!("../clusters/ethernet.toml")),
    ]
}

type Section = BTreeMap<String, String>;

fn sections(text: &str) -> Result<Vec<(String, Section)>> {
    let mut all: Vec<(String, Section)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let bad = || Error(format!("line {}: KEY = VALUE or [SECTION] is expected, not {line:?}", i + 1));
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            all.push((name.trim_matches(['[', ']']).trim().to_string(), Section::new()));
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(bad)?;
        let (_, section) = all.last_mut().ok_or_else(bad)?;
        section.insert(key.trim().to_string(), value.trim().trim_matches('"').to_string());
    }
    Ok(all)
}

/// The regions of `[kernels]`, if it is there.
fn kernels(all: &[(String, Section)]) -> Result<BTreeMap<String, f64>> {
    let mut known = BTreeMap::new();
    for (name, section) in all.iter().filter(|(n, _)| n == "kernels") {
        for key in section.keys() {
            known.insert(key.trim_matches('"').to_string(), number(name, section, key)?);
        }
    }
    Ok(known)
}

fn number(name: &str, s: &Section, key: &str) -> Result<f64> {
    let text = s.get(key).ok_or_else(|| Error(format!("[{name}] has no {key}")))?;
    let n: f64 = text.parse().map_err(|_| Error(format!("[{name}] {key} is {text:?}, no number")))?;
    if n >= 0.0 && n.is_finite() { Ok(n) } else { Err(Error(format!("[{name}] {key} is {n}"))) }
}

impl std::str::FromStr for Cluster {
    type Err = Error;
    fn from_str(text: &str) -> Result<Cluster> {
        let all = sections(text)?;
        let find = |name: &str| {
            let found = all.iter().find(|(n, _)| n == name).map(|(_, s)| s);
            found.ok_or_else(|| Error(format!("there is no section [{name}]")))
        };
        let (device, run) = (find("device")?, find("run")?);
        let level = |(name, s): &(String, Section)| {
            let per = match s.get("per").map(String::as_str) {
                None | Some("device") => Per::Device,
                Some("node") => Per::Node,
                Some(other) => return Err(Error(format!("[{name}] per is device or node, not {other:?}"))),
            };
            let get = |key| number(name, s, key);
            let (latency, bandwidth, share) = (get("latency")?, get("bandwidth")?, get("share")?);
            Ok(Level { size: get("size")? as usize, latency, bandwidth, share, per })
        };
        let levels = all.iter().filter(|(n, _)| n == "level").map(level).collect::<Result<Vec<Level>>>()?;
        if levels.is_empty() || levels.iter().any(|l| l.size == 0 || l.bandwidth * l.share == 0.0) {
            return Err(Error("a cluster needs [[level]] with devices and bandwidth".into()));
        }
        let or = |key: &str, default: f64| {
            if device.contains_key(key) { number("device", device, key) } else { Ok(default) }
        };
        let is = |key: &str| match device.get(key).map(String::as_str) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Error(format!("[device] {key} is true or false, not {other:?}"))),
        };
        let (of_device, of_run) = (|key| number("device", device, key), |key| number("run", run, key));
        Ok(Cluster {
            flops: of_device("flops")?,
            flops_f32: or("flops_f32", of_device("flops")?)?,
            launch: or("launch", 0.0)?,
            is_shared: is("shared")?,
            is_measured: is("measured")?,
            kernels: kernels(&all)?,
            memory: of_device("memory")?,
            bandwidth: of_device("bandwidth")?,
            product: of_device("product")?,
            half: of_device("half")?,
            stream: of_device("stream")?,
            levels,
            price: of_run("price")?,
            mtbf_hours: of_run("mtbf_hours")?,
            checkpoint_s: of_run("checkpoint_s")?,
            restart_s: of_run("restart_s")?,
            jitter: of_run("jitter")?,
        })
    }
}

impl Cluster {
    /// Devices of a node.
    pub fn node(&self) -> usize {
        self.levels[0].size
    }
    /// Seconds of one matrix product.
    pub fn product_s(&self, operations: f64) -> f64 {
        (operations + self.half) / (self.flops * self.product)
    }
    /// Seconds to read and write so many bytes of memory.
    pub fn stream_s(&self, bytes: f64) -> f64 {
        bytes / (self.bandwidth * self.stream)
    }
    /// Bytes a second and latency between `ranks`, of which `together` are in one node. Groups that leave a node use
    /// the NICs of their members there; a NIC of the whole node is shared by all groups.
    fn link(&self, ranks: usize, together: usize) -> (f64, f64) {
        let inner = &self.levels[0];
        let fast = inner.bandwidth * inner.share;
        match self.levels.get(1).filter(|_| ranks > together) {
            None => (fast, inner.latency),
            Some(outer) => {
                let nic = outer.bandwidth * outer.share;
                let own = match outer.per {
                    Per::Device => nic * together as f64,
                    Per::Node => nic * together as f64 / self.node() as f64,
                };
                (fast.min(own), inner.latency + outer.latency)
            }
        }
    }
    /// Seconds of an all-reduce, by rings.
    pub fn all_reduce_s(&self, bytes: f64, ranks: usize, together: usize) -> f64 {
        2.0 * self.gather_s(bytes, ranks, together)
    }
    /// Seconds of an all-gather or a reduce-scatter of `bytes` in all.
    pub fn gather_s(&self, bytes: f64, ranks: usize, together: usize) -> f64 {
        if ranks < 2 {
            return 0.0;
        }
        let (rate, latency) = self.link(ranks, together);
        (ranks - 1) as f64 / ranks as f64 * bytes / rate + latency / 2.0
    }
    /// Seconds from one node to the next, for each device.
    pub fn send_s(&self, bytes: f64, is_inside: bool) -> f64 {
        let (rate, latency) = if is_inside { self.link(1, 1) } else { self.link(2, 1) };
        bytes / rate + latency
    }
    /// The share of time that is not lost to checkpoints and failures, at the best interval (Young, Daly).
    pub fn efficiency(&self, devices: usize) -> f64 {
        let between = self.mtbf_hours * 3600.0 / devices as f64;
        let interval = (2.0 * self.checkpoint_s * between).sqrt();
        (1.0 - self.checkpoint_s / interval - interval / (2.0 * between) - self.restart_s / between).max(0.0)
    }
}

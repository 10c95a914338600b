//! The model repository: directories `NAME/VERSION/`, versions with labels, loading, unloading and reloading while
//! requests run. A request holds the version it found, so that replacing one drops nothing.

use crate::batcher::Policy;
use crate::failure::{Answered, Failure, Kind};
use crate::pipeline::{self, Pipeline};
use crate::served::{Executable, Served};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Tells one content of a directory from another: `model.json` holds the hashes of the other files.
type Stamp = (SystemTime, u64);

/// What there is of a version.
enum State {
    Ready(Arc<Served>),
    /// Unloaded because no request used it; the next one loads it again.
    Idle,
    Unavailable(String),
}

struct Version {
    dir: Option<PathBuf>,
    stamp: Option<Stamp>,
    state: State,
}

#[derive(Default)]
struct Entry {
    versions: BTreeMap<u64, Version>,
    labels: BTreeMap<String, u64>,
}

/// Which version a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The newest that is ready.
    Latest,
    /// One by number.
    Version(u64),
    /// The one with this label.
    Label(String),
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Selector::Latest => write!(f, "version"),
            Selector::Version(n) => write!(f, "version {n}"),
            Selector::Label(label) => write!(f, "label {label:?}"),
        }
    }
}

impl Selector {
    /// From the text of a path: a number, or nothing for the newest.
    pub fn parse(text: Option<&str>) -> Answered<Selector> {
        match text {
            None | Some("") => Ok(Selector::Latest),
            Some(t) => t.parse().map(Selector::Version).map_err(|_| Failure::not_found(format!("no version {t:?}"))),
        }
    }
}

/// A row of the repository's index.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct IndexRow {
    /// The model.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `READY` or `UNAVAILABLE`.
    pub state: String,
    /// Why it is unavailable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// How the repository keeps models.
#[derive(Clone, Debug)]
pub struct Keep {
    /// Versions of a model that are served, newest first, besides those with labels.
    pub versions: usize,
    /// Bytes of weights at most; 0: no limit.
    pub bytes_max: usize,
    /// Models that are not used so long are unloaded.
    pub idle: Option<Duration>,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep { versions: 1, bytes_max: 0, idle: None }
    }
}

/// Called with each version before requests reach it: compiles it.
pub type Warm = Box<dyn Fn(&Arc<Served>) -> Answered<()> + Send + Sync>;

/// Brings directories up to date before they are read; returns why it could not.
pub type Refresh = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Models by name and version.
pub struct Repository {
    /// Brings directories up to date before they are read.
    pub(crate) refresh: Option<Refresh>,
    /// Where models run; none: the current device.
    pub(crate) device: Option<String>,
    roots: Vec<PathBuf>,
    keep: Keep,
    policy: Policy,
    engines: usize,
    warm: Warm,
    models: RwLock<BTreeMap<String, Entry>>,
    /// One change at a time.
    changing: Mutex<()>,
}

const DESCRIPTION: &str = "model.json";
const LABELS: &str = "labels.json";

impl Repository {
    /// A repository over these directories; nothing is loaded yet.
    pub fn new(roots: Vec<PathBuf>, keep: Keep, policy: Policy, engines: usize, warm: Warm) -> Repository {
        let (models, changing) = Default::default();
        Repository { refresh: None, device: None, roots, keep, policy, engines, warm, models, changing }
    }

    /// The version that a request asks for. `None` if it was unloaded because it was idle: load it and ask again.
    pub fn find(&self, name: &str, selector: &Selector) -> Answered<Option<Arc<Served>>> {
        let models = self.models.read();
        let entry = models.get(name).ok_or_else(|| Failure::not_found(format!("there is no model {name:?}")))?;
        let is_up = |v: &&Version| !matches!(v.state, State::Unavailable(_));
        let unknown = || Failure::not_found(format!("{name} has no {selector}"));
        let version = match selector {
            Selector::Latest => {
                let newest = entry.versions.values().rev();
                newest.clone().find(is_up).or_else(|| newest.clone().next()).ok_or_else(unknown)?
            }
            Selector::Version(v) => entry.versions.get(v).ok_or_else(unknown)?,
            Selector::Label(l) => entry.labels.get(l).and_then(|v| entry.versions.get(v)).ok_or_else(unknown)?,
        };
        match &version.state {
            State::Ready(served) => {
                served.touch();
                Ok(Some(served.clone()))
            }
            State::Idle => Ok(None),
            State::Unavailable(why) => Err(Failure::new(Kind::Unavailable, format!("{name} is not ready: {why}"))),
        }
    }

    /// Every version that is ready.
    pub fn ready(&self) -> Vec<Arc<Served>> {
        let is_ready = |v: &Version| if let State::Ready(s) = &v.state { Some(s.clone()) } else { None };
        self.models.read().values().flat_map(|e| e.versions.values()).filter_map(is_ready).collect()
    }
    /// Ready versions of a model, and its labels.
    pub fn versions(&self, name: &str) -> (Vec<u64>, BTreeMap<String, u64>) {
        let models = self.models.read();
        let Some(entry) = models.get(name) else { return Default::default() };
        let is_up = |v: &Version| !matches!(v.state, State::Unavailable(_));
        (entry.versions.iter().filter(|(_, v)| is_up(v)).map(|(n, _)| *n).collect(), entry.labels.clone())
    }
    /// Every version with its state.
    pub fn index(&self) -> Vec<IndexRow> {
        let row = |name: &str, version: &u64, v: &Version| {
            let (state, reason) = match &v.state {
                State::Ready(_) => ("READY", String::new()),
                State::Idle => ("UNAVAILABLE", "idle: the next request loads it".into()),
                State::Unavailable(why) => ("UNAVAILABLE", why.clone()),
            };
            IndexRow { name: name.into(), version: version.to_string(), state: state.into(), reason }
        };
        let models = self.models.read();
        models.iter().flat_map(|(name, e)| e.versions.iter().map(move |(n, v)| row(name, n, v))).collect()
    }

    /// Loads every model that the directories hold; the failure of one does not stop the others. Returns how many
    /// versions are ready. Takes long: not for a thread that answers requests.
    pub fn scan(&self) -> Answered<usize> {
        self.refresh()?;
        let mut found: BTreeSet<String> = self.models.read().keys().cloned().collect();
        for root in &self.roots {
            found.extend(names(root)?);
        }
        for name in found {
            if let Err(e) = self.read_versions(&name) {
                eprintln!("talweg serve: {name}: {}", e.message);
            }
        }
        Ok(self.ready().len())
    }

    fn refresh(&self) -> Answered<()> {
        let failed = |e| Failure::new(Kind::Unavailable, e);
        self.refresh.as_ref().map_or(Ok(()), |refresh| refresh().map_err(failed))
    }

    /// Loads a model's versions as they are now: new and changed ones are loaded, then those that are gone are dropped.
    pub fn load(&self, name: &str) -> Answered<()> {
        self.refresh()?;
        self.read_versions(name)
    }

    fn read_versions(&self, name: &str) -> Answered<()> {
        let _changing = self.changing.lock();
        let (mut dirs, mut labels) = (BTreeMap::new(), BTreeMap::new());
        for root in &self.roots {
            let (more, own) = versions(root, name)?;
            dirs.extend(more);
            labels.extend(own);
        }
        if dirs.is_empty() {
            let is_put = self.models.read().get(name).is_some_and(|e| e.versions.values().any(|v| v.dir.is_none()));
            return if is_put { Ok(()) } else { Err(Failure::not_found(format!("there is no model {name:?}"))) };
        }
        let newest: BTreeSet<u64> = dirs.keys().rev().take(self.keep.versions.max(1)).copied().collect();
        dirs.retain(|v, _| newest.contains(v) || labels.values().any(|l| l == v));
        let mut failed = None;
        for (version, dir) in &dirs {
            let stamp = stamp(dir);
            let is_current = |v: &Version| v.stamp == stamp && matches!(v.state, State::Ready(_));
            if self.models.read().get(name).and_then(|e| e.versions.get(version)).is_some_and(is_current) {
                continue;
            }
            let loaded = self.read(name, *version, dir);
            let mut models = self.models.write();
            let entry = models.entry(name.into()).or_default();
            let state = match loaded {
                Ok(served) => State::Ready(served),
                Err(e) => {
                    failed = Some(e.clone());
                    // A version that was replaced by something broken goes on being served.
                    let is_ready = |v: &Version| matches!(v.state, State::Ready(_));
                    if entry.versions.get(version).is_some_and(is_ready) {
                        continue;
                    }
                    State::Unavailable(e.message)
                }
            };
            entry.versions.insert(*version, Version { dir: Some(dir.clone()), stamp, state });
        }
        if let Some(e) = failed {
            return Err(e);
        }
        let mut models = self.models.write();
        let entry = models.entry(name.into()).or_default();
        entry.versions.retain(|v, old| dirs.contains_key(v) || old.dir.is_none());
        entry.labels = labels;
        Ok(())
    }

    fn read(&self, name: &str, version: u64, dir: &Path) -> Answered<Arc<Served>> {
        // The file system's message would tell a client about the machine.
        let failed = |e: ir::Error| Failure::new(Kind::Unavailable, format!("loading failed: {}", e.message));
        let model: Arc<dyn Executable> = if dir.join(pipeline::FILE).is_file() {
            Arc::new(Pipeline::load(dir, self.device.as_deref()).map_err(failed)?)
        } else {
            Arc::new(model::Model::load_on(dir, self.device.as_deref()).map_err(failed)?)
        };
        self.make_room(name, model.weight_bytes())?;
        let served = Arc::new(Served::new(name, version, model, self.policy, self.engines));
        (self.warm)(&served)?;
        Ok(served)
    }

    /// Adds a model of this process instead of one from a directory.
    pub fn put(&self, name: &str, version: u64, model: Arc<dyn Executable>) -> Answered<()> {
        let _changing = self.changing.lock();
        let served = Arc::new(Served::new(name, version, model, self.policy, self.engines));
        (self.warm)(&served)?;
        let version_of = Version { dir: None, stamp: None, state: State::Ready(served) };
        self.models.write().entry(name.into()).or_default().versions.insert(version, version_of);
        Ok(())
    }

    /// Stops serving a model. Requests that it has are answered.
    pub fn unload(&self, name: &str) -> Answered<()> {
        let _changing = self.changing.lock();
        let mut models = self.models.write();
        let entry = models.get_mut(name).ok_or_else(|| Failure::not_found(format!("there is no model {name:?}")))?;
        for v in entry.versions.values_mut() {
            v.state = State::Unavailable("unloaded".into());
            v.stamp = None;
        }
        Ok(())
    }

    /// Whether it was unloaded by request: it stays so until it is loaded by request.
    fn is_unloaded(&self, name: &str) -> bool {
        let is_out = |v: &Version| matches!(&v.state, State::Unavailable(why) if why == "unloaded");
        self.models.read().get(name).is_some_and(|e| e.versions.values().all(is_out))
    }

    /// Looks for changes on disk, and unloads what was not used for long.
    pub fn poll(&self, is_scanning: bool) {
        if is_scanning {
            if let Err(e) = self.refresh() {
                eprintln!("talweg serve: {}", e.message);
            }
            let names: BTreeSet<String> = self.roots.iter().filter_map(|r| names(r).ok()).flatten().collect();
            for name in names.iter().filter(|n| !self.is_unloaded(n)) {
                if let Err(e) = self.read_versions(name) {
                    eprintln!("talweg serve: {name}: {}", e.message);
                }
            }
        }
        if let Some(idle) = self.keep.idle {
            self.release(|s| s.idle_us() > idle.as_micros() as u64);
        }
    }

    /// Unloads versions that came from a directory and that no request uses.
    fn release(&self, is_wanted_back: impl Fn(&Served) -> bool) {
        for v in self.models.write().values_mut().flat_map(|e| e.versions.values_mut()) {
            let State::Ready(served) = &v.state else { continue };
            if v.dir.is_some() && served.pending() == 0 && is_wanted_back(served) {
                v.state = State::Idle;
            }
        }
    }

    /// Makes room for so many bytes of weights, from models that were not used for the longest.
    fn make_room(&self, name: &str, bytes: usize) -> Answered<()> {
        if self.keep.bytes_max == 0 {
            return Ok(());
        }
        loop {
            let others: Vec<Arc<Served>> = self.ready().into_iter().filter(|s| s.name != name).collect();
            let used: usize = others.iter().map(|s| s.model.weight_bytes()).sum();
            if used + bytes <= self.keep.bytes_max {
                return Ok(());
            }
            let can_go = others.iter().filter(|s| s.pending() == 0);
            let before = others.len();
            if let Some(oldest) = can_go.max_by_key(|s| s.idle_us()).map(|s| s.id) {
                self.release(|s| s.id == oldest);
            }
            if self.ready().iter().filter(|s| s.name != name).count() == before {
                let e = format!("{bytes} bytes of weights exceed the memory limit of {}", self.keep.bytes_max);
                return Err(Failure::new(Kind::Unavailable, e));
            }
        }
    }
}

fn stamp(dir: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(dir.join(description(dir)?)).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn entries(dir: &Path) -> Answered<Vec<PathBuf>> {
    let failed = |e| Failure::new(Kind::Unavailable, format!("{}: {e}", dir.display()));
    let mut out: Vec<PathBuf> = std::fs::read_dir(dir).map_err(failed)?.filter_map(|e| Some(e.ok()?.path())).collect();
    out.sort();
    Ok(out)
}

/// The file that describes a model or a pipeline.
fn description(dir: &Path) -> Option<&'static str> {
    [DESCRIPTION, pipeline::FILE].into_iter().find(|f| dir.join(f).is_file())
}

fn is_model(dir: &Path) -> bool {
    description(dir).is_some()
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str().filter(|n| !n.starts_with('.'))
}

fn number(path: &Path) -> Option<u64> {
    file_name(path)?.parse().ok()
}

/// The name of a directory that is a model itself.
fn own_name(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join(description(dir)?)).ok()?;
    let described: serde_json::Value = serde_json::from_str(&text).ok()?;
    described.get("name")?.as_str().filter(|n| !n.is_empty() && !n.contains('/')).map(String::from)
}

/// Names of the models below a directory, or of the model that it is.
fn names(root: &Path) -> Answered<Vec<String>> {
    if is_model(root) {
        return Ok(own_name(root).into_iter().collect());
    }
    let has_model =
        |p: &PathBuf| is_model(p) || entries(p).is_ok_and(|all| all.iter().any(|v| number(v).is_some() && is_model(v)));
    Ok(entries(root)?.iter().filter(|p| has_model(p)).filter_map(|p| file_name(p).map(String::from)).collect())
}

type Found = (BTreeMap<u64, PathBuf>, BTreeMap<String, u64>);

/// Directories of a model's versions, and its labels.
fn versions(root: &Path, name: &str) -> Answered<Found> {
    let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
    if !is_plain {
        return Err(Failure::not_found(format!("there is no model {name:?}")));
    }
    if is_model(root) {
        let own = own_name(root).as_deref() == Some(name);
        return Ok((own.then(|| (1, root.to_path_buf())).into_iter().collect(), BTreeMap::new()));
    }
    let dir = root.join(name);
    if is_model(&dir) {
        return Ok((BTreeMap::from([(1, dir)]), BTreeMap::new()));
    }
    if !dir.is_dir() {
        return Ok(Default::default());
    }
    let numbered = entries(&dir)?.into_iter().filter(|p| is_model(p)).filter_map(|p| Some((number(&p)?, p)));
    let labels = match std::fs::read_to_string(dir.join(LABELS)) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|e| Failure::new(Kind::Unavailable, format!("{LABELS}: {e}")))?
        }
        Err(_) => BTreeMap::new(),
    };
    Ok((numbered.collect(), labels))
}

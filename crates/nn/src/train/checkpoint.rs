//! `Checkpoint`: everything a run needs to go on, as named tensors and a few numbers.
//!
//! It is a safetensors file, so that other tools read the weights; what is not a tensor stands in
//! the file's metadata, as text that parses back to the same bits. Names are paths: `model.` and
//! what the module calls its parameter, `optimizer.` and what the optimizer calls its state.

use super::blocks::{self, InBlocks};
use super::parts::{PARTS, STORED, Stored, read_parts};
use data::{Place, Position};
use ir::{Site, Type, Value};
use std::collections::BTreeMap;
use std::path::Path;
use tensor::{Error, ErrorKind, Literal, Result, Tensor, Variable, current_mesh, files, generator};

/// Written into every file, so that a later format can be told from this one.
const FORMAT: &str = "talweg checkpoint 1";
/// Prefix of the metadata keys of the caller.
const NOTE: &str = "note.";
/// How many names an error lists before it only counts.
const LISTED_MAX: usize = 12;

/// The state of a run after a step.
///
/// ```
/// # use talweg_nn::train::Checkpoint;
/// # use talweg_nn::{Linear, Module};
/// let model = Linear::new(3, 2).unwrap();
/// let saved = Checkpoint::new(10).with("model", &model.state()).unwrap();
/// let other = Linear::new(3, 2).unwrap();
/// saved.restore("model", &other.state()).unwrap();
/// let values = |m: &Linear| m.weight.tensor().to_vec::<f32>().unwrap();
/// assert_eq!(values(&model), values(&other));
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Steps done.
    pub step: u64,
    /// Seed and draws of the random generator of the thread that trains.
    pub generator: (u64, u64),
    /// The position of the loader.
    pub position: Option<Position>,
    /// How good the model is by the watched metric, where it was evaluated at this step.
    pub score: Option<f64>,
    /// Other state, such as that of a schedule.
    pub notes: BTreeMap<String, String>,
    /// The tensors by path.
    pub tensors: BTreeMap<String, Literal>,
    /// Tensors that are not in memory as a whole, by path: on a mesh, those that ranks hold in blocks, and those of a
    /// checkpoint that was loaded.
    pub in_blocks: BTreeMap<String, InBlocks>,
    /// Tensors that lie in other files, which servers of the parameter store have written, by path;
    /// and the names of these files. Loading the checkpoint loads them too.
    pub stored: BTreeMap<String, Stored>,
    /// See `stored`.
    pub parts: Vec<String>,
}

impl Checkpoint {
    /// Without tensors, with the present state of this thread's random generator.
    pub fn new(step: u64) -> Checkpoint {
        let generator = generator::state();
        Checkpoint {
            step,
            generator,
            position: None,
            score: None,
            notes: BTreeMap::new(),
            tensors: BTreeMap::new(),
            in_blocks: BTreeMap::new(),
            stored: BTreeMap::new(),
            parts: Vec::new(),
        }
    }

    /// Adds the present values of variables under a prefix. Later assignments do not change what
    /// was taken.
    pub fn with(mut self, prefix: &str, state: &[(String, Variable)]) -> Result<Checkpoint> {
        let (mut whole, mut names) = (Vec::new(), Vec::new());
        for (name, v) in state {
            let path = crate::join(prefix, name);
            let is_new = match InBlocks::of(v)? {
                Some(b) => self.in_blocks.insert(path.clone(), b).is_none() && !self.tensors.contains_key(&path),
                None => {
                    whole.push(v.tensor());
                    names.push(path.clone());
                    !self.in_blocks.contains_key(&path)
                }
            };
            if !is_new {
                return Err(twice(&path));
            }
        }
        Tensor::eval_all(&whole.iter().collect::<Vec<_>>())?;
        for (path, value) in names.into_iter().zip(whole) {
            if self.tensors.insert(path.clone(), value.literal()?).is_some() {
                return Err(twice(&path));
            }
        }
        Ok(self)
    }

    /// Adds the position of the loader.
    #[must_use]
    pub fn at(mut self, position: Position) -> Checkpoint {
        self.position = Some(position);
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, key: &str, value: impl ToString) -> Checkpoint {
        self.notes.insert(key.to_string(), value.to_string());
        self
    }

    /// A note, parsed.
    pub fn noted<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>> {
        let Some(text) = self.notes.get(key) else { return Ok(None) };
        let parsed = text.parse();
        parsed.map(Some).map_err(|_| Error::format(format!("the checkpoint's note {key} is {text:?}")))
    }

    /// Sets all the variables to what was saved under the prefix. What else is saved does not
    /// matter, so that a part of a run can be restored: the model without its optimizer, or an
    /// encoder alone (`restore("model.encoder", &encoder.state())`).
    ///
    /// Fails, and changes nothing, if a name is missing or a type differs; the error lists all.
    pub fn restore(&self, prefix: &str, state: &[(String, Variable)]) -> Result<()> {
        let (mut missing, mut differ, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for (name, v) in state {
            let path = crate::join(prefix, name);
            match self.ty(&path) {
                None => missing.push(path),
                Some(t) if t.shape != v.shape() || t.dtype != v.dtype() => {
                    let saved = format!("{} {:?}", t.dtype, t.shape.dims());
                    differ.push(format!("{path} (saved {saved}, needed {} {:?})", v.dtype(), v.shape().dims()));
                }
                Some(_) => found.push((v, path)),
            }
        }
        if !missing.is_empty() || !differ.is_empty() {
            return Err(self.mismatch(missing, differ));
        }
        found.into_iter().try_for_each(|(v, path)| v.assign(&self.tensor(&path)?))
    }

    /// The type of a tensor.
    fn ty(&self, path: &str) -> Option<Type> {
        let whole = self.tensors.get(path).map(|l| Type::new(l.dtype(), l.shape().clone()));
        whole.or_else(|| self.in_blocks.get(path).map(|b| b.ty().clone()))
    }

    /// Whether there is a tensor of that path.
    pub fn has(&self, path: &str) -> bool {
        self.tensors.contains_key(path) || self.in_blocks.contains_key(path)
    }

    /// Its paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &String> {
        self.tensors.keys().chain(self.in_blocks.keys())
    }

    /// A tensor by its path. On a mesh, each rank reads what it needs of it, when it is used.
    pub fn tensor(&self, path: &str) -> Result<Tensor> {
        match (self.tensors.get(path), self.in_blocks.get(path)) {
            (Some(l), _) => Ok(Tensor::from(l.clone())),
            (None, Some(InBlocks::OnDisk(f))) => {
                Ok(Tensor::from(Value::computed(f.ty().clone(), f.buffer(), false, Site::UNKNOWN)))
            }
            (None, Some(InBlocks::Held(_))) => {
                Err(Error::value(format!("{path} is in blocks on a mesh: save the checkpoint and load it")))
            }
            (None, None) => Err(Error::value(format!("the checkpoint of step {} has no {path}", self.step))),
        }
    }

    /// Restores tensors under the prefix that have the right type, leaves the rest as it is, and
    /// answers the names that were left: for a model whose head differs from the saved one.
    pub fn restore_matching(&self, prefix: &str, state: &[(String, Variable)]) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for (name, v) in state {
            let path = crate::join(prefix, name);
            match self.ty(&path) {
                Some(t) if t.shape == v.shape() && t.dtype == v.dtype() => v.assign(&self.tensor(&path)?)?,
                _ => left.push(name.clone()),
            }
        }
        Ok(left)
    }

    fn mismatch(&self, missing: Vec<String>, differ: Vec<String>) -> Error {
        let mut parts = Vec::new();
        if !missing.is_empty() {
            parts.push(format!("it has no {}", listed(&missing)));
        }
        if !differ.is_empty() {
            parts.push(format!("other types: {}", listed(&differ)));
        }
        let kind = if missing.is_empty() { ErrorKind::Shape } else { ErrorKind::Value };
        let e = format!("the checkpoint of step {} does not fit: {}", self.step, parts.join("; "));
        Error::new(kind, e).in_op("restore")
    }

    /// The file's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        if let Some(path) = self.in_blocks.keys().next() {
            return Err(Error::value(format!("{path} is in blocks: save the checkpoint")).in_op("checkpoint"));
        }
        files::encode(&self.tensors, &self.info()?)
    }

    /// The state that is not a tensor, for the file's metadata.
    pub(super) fn info(&self) -> Result<BTreeMap<String, String>> {
        let mut info = BTreeMap::from([
            ("format".to_string(), FORMAT.to_string()),
            ("step".to_string(), self.step.to_string()),
            ("generator".to_string(), format!("{} {}", self.generator.0, self.generator.1)),
        ]);
        if let Some(position) = &self.position {
            let text = serde_json::to_string(position).map_err(|e| Error::bug(format!("position: {e}")))?;
            info.insert("position".to_string(), text);
        }
        if let Some(score) = self.score {
            // The shortest text that parses to the same number.
            info.insert("score".to_string(), score.to_string());
        }
        info.extend(self.notes.iter().map(|(k, v)| (format!("{NOTE}{k}"), v.clone())));
        info.extend(self.stored.iter().map(|(k, s)| (format!("{STORED}{k}"), s.encode())));
        if !self.parts.is_empty() {
            info.insert(PARTS.to_string(), self.parts.join("\n"));
        }
        Ok(info)
    }

    /// From a file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Checkpoint> {
        let (tensors, info) = files::decode(bytes)?;
        Checkpoint::from_info(tensors, &info)
    }

    /// From its tensors and a file's metadata.
    pub(super) fn from_info(tensors: BTreeMap<String, Literal>, info: &BTreeMap<String, String>) -> Result<Checkpoint> {
        let field = |key: &str| info.get(key).ok_or_else(|| Error::format(format!("not a checkpoint: no {key}")));
        let bad = |key: &str| Error::format(format!("not a checkpoint: {key} is {:?}", info.get(key)));
        if field("format")? != FORMAT {
            return Err(Error::format(format!("expected the format {FORMAT:?}, found {:?}", field("format")?)));
        }
        let generator = field("generator")?.split_once(' ');
        let generator = generator.and_then(|(seed, draws)| Some((seed.parse().ok()?, draws.parse().ok()?)));
        let position = info.get("position").map(|p| serde_json::from_str(p).map_err(|_| bad("position")));
        let score = info.get("score").map(|s| s.parse().map_err(|_| bad("score")));
        let notes = info.iter().filter_map(|(k, v)| Some((k.strip_prefix(NOTE)?.to_string(), v.clone())));
        let stored = info.iter().filter_map(|(k, v)| Some((k.strip_prefix(STORED)?.to_string(), v)));
        let stored =
            stored.map(|(k, v)| Ok((k.clone(), Stored::decode(v).ok_or_else(|| bad(&format!("{STORED}{k}")))?)));
        let parts = info.get(PARTS).map(|list| list.lines().map(str::to_string).collect());
        Ok(Checkpoint {
            step: field("step")?.parse().map_err(|_| bad("step"))?,
            generator: generator.ok_or_else(|| bad("generator"))?,
            position: position.transpose()?,
            score: score.transpose()?,
            notes: notes.collect(),
            tensors,
            in_blocks: BTreeMap::new(),
            stored: stored.collect::<Result<_>>()?,
            parts: parts.unwrap_or_default(),
        })
    }

    /// Writes the file and its checksum (`NAME.xxh3`). Both are there whole, or the old ones are.
    /// The path may be a URL, as for [`Place::open`]. On a mesh, all ranks call it, and each writes what it holds.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let (place, name) = Place::of(path.as_ref())?;
        self.save_to(&place, &name)
    }

    pub(crate) fn save_to(&self, place: &Place, name: &str) -> Result<()> {
        if let Some(mesh) = current_mesh()? {
            return blocks::save(self, place, name, &mesh);
        }
        let info = self.info()?;
        let file = files::Encoded::new(&self.tensors, &info)?;
        Ok(place.write(name, &mut |to| file.write(to))?)
    }

    /// Reads a file that [`Checkpoint::save`] wrote; one that was truncated or changed is refused
    /// with its name.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let (place, name) = Place::of(path.as_ref())?;
        Checkpoint::load_from(&place, &name)
    }

    pub(crate) fn load_from(place: &Place, name: &str) -> Result<Checkpoint> {
        let found = Checkpoint::read(place, name);
        found.map_err(|e| Error::new(e.kind, format!("{}: {}", place.path(name).display(), e.message)))
    }

    fn read(place: &Place, name: &str) -> Result<Checkpoint> {
        if let Some((mut c, info)) = blocks::load_own(place, name)?
            && c.stored.is_empty()
        {
            blocks::load_blocks(&mut c, &info, place)?;
            return Ok(c);
        }
        let (tensors, info) = files::decode(&place.read(name)?)?;
        let mut c = Checkpoint::from_info(tensors, &info)?;
        let (stored, parts) = (std::mem::take(&mut c.stored), std::mem::take(&mut c.parts));
        c.tensors.extend(read_parts(place, &parts, &stored)?);
        blocks::load_blocks(&mut c, &info, place)?;
        Ok(c)
    }
}

fn twice(path: &str) -> Error {
    let e = format!("two tensors have the name {path}: call name_variables() on the model first");
    Error::value(e).in_op("checkpoint")
}

fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(LISTED_MAX)].join(", ");
    if names.len() > LISTED_MAX { format!("{shown} and {} more", names.len() - LISTED_MAX) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Linear, Module};

    #[test]
    fn numbers_survive_to_the_bit() {
        let odd = [0.1f64, -0.0, f64::from_bits(0x7ff8_0000_0000_1234), f64::MIN_POSITIVE / 8.0, f64::INFINITY];
        let v = Variable::buffer("v", Tensor::from(odd)).unwrap();
        let mut saved = Checkpoint::new(u64::MAX).with("x", &[("v".into(), v)]).unwrap().note("a b", 0.1 + 0.2);
        saved.generator = (u64::MAX, u64::MAX - 1);
        saved.score = Some(1.0 / 3.0);
        saved.position =
            Some(Position { epoch: 1, batch: 2, samples: 3, len: 4, seed: Some(u64::MAX), by_generator: true });
        let read = Checkpoint::decode(&saved.encode().unwrap()).unwrap();
        assert_eq!((read.step, read.generator, read.position), (saved.step, saved.generator, saved.position));
        assert_eq!(read.score, saved.score);
        assert_eq!(read.noted::<f64>("a b").unwrap(), Some(0.1 + 0.2));
        assert_eq!(read.tensors["x.v"].bytes(), saved.tensors["x.v"].bytes());
    }

    #[test]
    fn what_was_taken_does_not_follow_the_variable() {
        let v = Variable::buffer("v", Tensor::from([1.0f32, 2.0])).unwrap();
        let saved = Checkpoint::new(0).with("", &[("v".into(), v.clone())]).unwrap();
        v.assign(&(v.tensor() * 3.0)).unwrap();
        assert_eq!(v.tensor().to_vec::<f32>().unwrap(), [3.0, 6.0]);
        assert_eq!(saved.tensors["v"].to_f64(), [1.0, 2.0]);
    }

    #[test]
    fn a_part_can_be_restored() {
        let both = (Linear::new(2, 3).unwrap(), Linear::new(3, 1).unwrap());
        let saved = Checkpoint::new(1).with("model", &both.state()).unwrap();
        let second = Linear::new(3, 1).unwrap();
        saved.restore("model.1", &second.state()).unwrap();
        assert_eq!(second.weight.tensor().literal().unwrap(), both.1.weight.tensor().literal().unwrap());
        let other = (Linear::new(2, 3).unwrap(), Linear::new(3, 5).unwrap());
        assert_eq!(saved.restore_matching("model", &other.state()).unwrap(), ["1.weight", "1.bias"]);
        assert_eq!(other.0.weight.tensor().literal().unwrap(), both.0.weight.tensor().literal().unwrap());
    }

    #[test]
    fn what_does_not_fit_is_listed_and_changes_nothing() {
        let saved = Checkpoint::new(7).with("model", &(Linear::without_bias(2, 3).unwrap()).state()).unwrap();
        let model = Linear::new(4, 3).unwrap();
        let before = model.weight.tensor().literal().unwrap();
        let e = saved.restore("model", &model.state()).unwrap_err().to_string();
        assert!(e.contains("step 7") && e.contains("it has no model.bias"), "{e}");
        assert!(e.contains("model.weight (saved f32 [3, 2], needed f32 [3, 4])"), "{e}");
        assert_eq!(model.weight.tensor().literal().unwrap(), before);
        let twice = [("a".to_string(), model.weight.clone()), ("a".to_string(), model.weight.clone())];
        let e = Checkpoint::new(0).with("model", &twice).unwrap_err().to_string();
        assert!(e.contains("two tensors have the name model.a"), "{e}");
    }

    #[test]
    fn other_safetensors_are_refused_in_words() {
        let plain = files::encode(&BTreeMap::new(), &BTreeMap::from([("a".into(), "b".into())])).unwrap();
        let e = Checkpoint::decode(&plain).unwrap_err().to_string();
        assert!(e.contains("not a checkpoint: no format"), "{e}");
    }
}

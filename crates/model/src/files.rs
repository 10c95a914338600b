//! The directory of an exported model.

use crate::loaded::Model;
use crate::mapped;
use crate::polymorphic::{Polymorphic, Role};
use crate::signature::Signature;
use ir::{Error, ErrorKind, Graph, Literal, Result, Slot};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const FORMAT: &str = "talweg-model";
const VERSION: u32 = 1;
const DESCRIPTION: &str = "model.json";
const GRAPH: &str = "graph.bin";
const TEXT: &str = "graph.txt";
const WEIGHTS: &str = "weights.safetensors";
/// Descriptions longer than this are not read.
const DESCRIPTION_BYTES_MAX: u64 = 64 << 20;

/// `model.json`.
#[derive(Serialize, Deserialize)]
struct Description {
    format: String,
    format_version: u32,
    #[serde(flatten)]
    signature: Signature,
    /// What each input of the graph is: the number of an argument, or the name of a weight.
    graph_inputs: Vec<GraphInput>,
    sizes: serde_json::Value,
    sha256: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum GraphInput {
    Argument(usize),
    Weight(String),
}

fn in_file(path: &Path, e: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Format, format!("{}: {e}", path.display()))
}
fn in_io(path: &Path, e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Writes a model beside its place, then moves it there.
pub fn write(dir: &Path, model: &Model) -> Result<()> {
    let (graph, roles) = model.parts();
    let mut weights = BTreeMap::new();
    let mut graph_inputs = Vec::new();
    for role in roles {
        graph_inputs.push(match role {
            Role::Argument(i) => GraphInput::Argument(*i),
            Role::Weight(name, value) => {
                weights.insert(name.clone(), value.clone());
                GraphInput::Weight(name.clone())
            }
        });
    }
    let files = [
        (GRAPH, graph.graph().to_bytes()),
        (TEXT, graph.graph().to_string().into_bytes()),
        (WEIGHTS, mapped::encode(&weights)?),
    ];
    let description = Description {
        format: FORMAT.into(),
        format_version: VERSION,
        signature: model.signature().clone(),
        graph_inputs,
        sizes: graph.holes()?,
        sha256: files.iter().map(|(name, bytes)| (name.to_string(), hash(bytes))).collect(),
    };
    let text = serde_json::to_vec_pretty(&description).map_err(|e| Error::bug(e.to_string()))?;
    let beside = beside(dir, "new")?;
    let filled = || -> Result<()> {
        fs::create_dir_all(&beside).map_err(|e| in_io(&beside, e))?;
        for (name, bytes) in files.iter().map(|(n, b)| (*n, b)).chain([(DESCRIPTION, &text)]) {
            let path = beside.join(name);
            let mut file = File::create(&path).map_err(|e| in_io(&path, e))?;
            file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|e| in_io(&path, e))?;
        }
        replace(&beside, dir)
    };
    filled().inspect_err(|_| drop(fs::remove_dir_all(&beside)))
}

/// A name beside a directory that no other process uses.
fn beside(dir: &Path, what: &str) -> Result<PathBuf> {
    let name = dir.file_name().ok_or_else(|| in_file(dir, "is no place for a directory"))?;
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|e| in_io(parent, e))?;
    Ok(parent.join(format!(".{}.{what}.{}", name.to_string_lossy(), std::process::id())))
}

/// Puts `new` in the place of `dir`, which may hold an older model and nothing else.
fn replace(new: &Path, dir: &Path) -> Result<()> {
    if !dir.exists() {
        return fs::rename(new, dir).map_err(|e| in_io(dir, e));
    }
    let is_ours = dir.join(DESCRIPTION).exists() || fs::read_dir(dir).is_ok_and(|mut d| d.next().is_none());
    if !is_ours {
        return Err(in_file(dir, "is there already and holds no model"));
    }
    let old = beside(dir, "old")?;
    fs::rename(dir, &old).map_err(|e| in_io(dir, e))?;
    fs::rename(new, dir).map_err(|e| in_io(dir, e))?;
    fs::remove_dir_all(&old).map_err(|e| in_io(&old, e))
}

fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| in_io(path, e))?;
    let length = file.metadata().map_err(|e| in_io(path, e))?.len();
    if length > bytes_max {
        return Err(in_file(path, format!("has {length} bytes, but at most {bytes_max} are read")));
    }
    let mut out = Vec::with_capacity(length as usize);
    file.take(bytes_max).read_to_end(&mut out).map_err(|e| in_io(path, e))?;
    Ok(out)
}

/// Reads a model and checks all of it.
pub fn read(dir: &Path) -> Result<Model> {
    let path = dir.join(DESCRIPTION);
    let text = read_file(&path, DESCRIPTION_BYTES_MAX)?;
    let description: Description = serde_json::from_slice(&text).map_err(|e| in_file(&path, e))?;
    let Description { format, format_version, signature, graph_inputs, sizes, sha256 } = description;
    if (format.as_str(), format_version) != (FORMAT, VERSION) {
        let e = format!("is {format:?} version {format_version}, but {FORMAT:?} version {VERSION} is understood");
        return Err(in_file(&path, e));
    }
    let check = |name: &str, bytes: &[u8]| match sha256.get(name) {
        Some(want) if *want == hash(bytes) => Ok(()),
        _ => {
            let e = format!("is not the file that {DESCRIPTION} describes: its SHA-256 differs");
            Err(in_file(&dir.join(name), e))
        }
    };
    let bytes = read_file(&dir.join(GRAPH), u64::MAX)?;
    check(GRAPH, &bytes)?;
    let graph = Graph::from_bytes(&bytes, &tensor::find).map_err(|e| in_file(&dir.join(GRAPH), e))?;
    let mapped = mapped::open(&dir.join(WEIGHTS)).map_err(|e| in_io(&dir.join(WEIGHTS), e))?;
    check(WEIGHTS, &mapped)?;
    let mut weights = mapped::decode(&mapped).map_err(|e| in_file(&dir.join(WEIGHTS), e))?;
    let mut roles = Vec::with_capacity(graph_inputs.len());
    for (k, input) in graph_inputs.into_iter().enumerate() {
        roles.push(match input {
            GraphInput::Argument(i) if i < signature.inputs.len() => Role::Argument(i),
            GraphInput::Argument(i) => return Err(in_file(&path, format!("there is no argument {i}"))),
            GraphInput::Weight(name) => {
                let missing = || in_file(&dir.join(WEIGHTS), format!("there is no tensor {name:?}"));
                let value = weights.remove(&name).ok_or_else(missing)?;
                check_weight(&graph, k, &value).map_err(|e| in_file(&dir.join(WEIGHTS), format!("{name}: {e}")))?;
                Role::Weight(name, value)
            }
        });
    }
    let graph = Polymorphic::from_parts(graph, signature.dims.len(), &sizes).map_err(|e| in_file(&path, e))?;
    check_signature(&signature, &graph, &roles).map_err(|e| in_file(&path, e))?;
    Model::new(signature, graph, roles).map_err(|e| in_file(&path, e))
}

fn check_weight(graph: &Graph, input: usize, value: &Literal) -> std::result::Result<(), String> {
    let node = graph.inputs.get(input).ok_or("the graph has fewer inputs")?;
    let ty = graph.ty(Slot::new(*node as usize, 0));
    if (ty.dtype, &ty.shape) == (value.dtype(), value.shape()) {
        return Ok(());
    }
    Err(format!("the graph wants {ty}, but the file holds {}{}", value.dtype(), value.shape()))
}

/// The signature must be the graph's, at the least sizes as at those it was written with.
fn check_signature(signature: &Signature, graph: &Polymorphic, roles: &[Role]) -> Result<()> {
    signature.check()?;
    if graph.graph().outputs.len() != signature.outputs.len() {
        let (a, b) = (signature.outputs.len(), graph.graph().outputs.len());
        return Err(Error::format(format!("{a} outputs are described, but the graph has {b}")));
    }
    if graph.graph().inputs.len() != roles.len() {
        return Err(Error::format("inputs of the graph are not described"));
    }
    let least: Vec<usize> = signature.dims.iter().map(|d| d.min.next_multiple_of(d.multiple_of.max(1))).collect();
    let at = graph.at(&least)?;
    for (role, &node) in roles.iter().zip(&at.inputs) {
        let Role::Argument(i) = role else { continue };
        let (spec, ty) = (&signature.inputs[*i], at.ty(Slot::new(node as usize, 0)));
        if spec.at(&signature.dims, &least)?.as_ref() != Some(ty) {
            return Err(Error::format(format!("{}: the graph takes {ty}, not {}", spec.name, spec.describe())));
        }
    }
    for (spec, &slot) in signature.outputs.iter().zip(&at.outputs) {
        let ty = at.ty(slot);
        if spec.at(&signature.dims, &least)?.is_some_and(|want| want != *ty) || spec.dtype()? != ty.dtype {
            return Err(Error::format(format!("{}: the graph returns {ty}, not {}", spec.name, spec.describe())));
        }
    }
    Ok(())
}

//! The data on disk, and one case of it with typed access to its arguments.
//!
//! Accessors panic on an argument of another kind than the adapter asked for; the check catches
//! that and reports it as the operator's failure.

use super::{Arg, Place};
use ir::Literal;
use ops::{DType, Error, Result, Tensor};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A set of cases with their tensors.
pub struct Golden {
    /// The cases, in the order of the file.
    pub cases: Vec<GoldenCase>,
    /// True if it is the checked-in subset.
    pub is_subset: bool,
}

/// One call of a PyTorch operator with what came out.
pub struct GoldenCase {
    /// The operator's name, with its variant where it has one: `sum`, `max:binary`.
    pub operator: String,
    /// Number of the case within its operator.
    pub index: u64,
    /// Positional arguments; the first is the input.
    pub args: Vec<Arg>,
    /// Named arguments.
    pub kwargs: BTreeMap<String, Arg>,
    pub(super) pick: Vec<usize>,
    pub(super) diff: Vec<usize>,
    pub(super) outputs: Vec<String>,
    pub(super) cotangents: Vec<String>,
    pub(super) wrt: Vec<String>,
    pub(super) grads: Vec<String>,
    pub(super) gradgrads: Option<Vec<String>>,
    pub(super) leaves: HashMap<String, Tensor>,
    pub(super) store: Arc<HashMap<String, Literal>>,
}

impl Golden {
    /// The full data where it is (`TALWEG_GOLDEN`, or `../shared/golden` beside the workspace),
    /// else the checked-in subset.
    pub fn find() -> std::result::Result<Golden, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = root.join("../..");
        let places = [std::env::var("TALWEG_GOLDEN").ok().map(PathBuf::from), Some(workspace.join("../shared/golden"))];
        for dir in places.into_iter().flatten() {
            if dir.join("cases.json").exists() {
                return Golden::load(&dir, false);
            }
        }
        Golden::load(&root.join("data/golden"), true)
    }

    /// From a folder.
    pub fn load(dir: &Path, is_subset: bool) -> std::result::Result<Golden, String> {
        let read = |name: &str| {
            let path = dir.join(name);
            std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        let bytes = read("tensors.safetensors")?;
        let file = SafeTensors::deserialize(&bytes).map_err(|e| format!("tensors.safetensors: {e}"))?;
        let mut store = HashMap::new();
        for (name, view) in file.iter() {
            let dtype = dtype(view.dtype()).ok_or_else(|| format!("{name}: type {:?}", view.dtype()))?;
            let l =
                Literal::from_bytes(dtype, view.shape().to_vec(), view.data()).map_err(|e| format!("{name}: {e}"))?;
            store.insert(name.to_string(), l);
        }
        let store = Arc::new(store);
        let json: Json = serde_json::from_slice(&read("cases.json")?).map_err(|e| format!("cases.json: {e}"))?;
        let cases = json["cases"].as_array().ok_or("cases.json: no cases")?;
        let cases = cases.iter().map(|j| GoldenCase::parse(j, &store).map_err(|e| format!("cases.json: {e} in {j}")));
        Ok(Golden { cases: cases.collect::<std::result::Result<_, _>>()?, is_subset })
    }
}

fn dtype(d: Dtype) -> Option<DType> {
    Some(match d {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => DType::Bool,
        _ => return None,
    })
}

impl GoldenCase {
    fn parse(j: &Json, store: &Arc<HashMap<String, Literal>>) -> std::result::Result<GoldenCase, String> {
        let text = |k: &str| j[k].as_str().map(str::to_string).ok_or(format!("no {k}"));
        let list = |k: &str| j[k].as_array().ok_or(format!("no {k}"));
        let numbers = |k| -> std::result::Result<Vec<usize>, String> {
            list(k)?.iter().map(|x| x.as_u64().map(|x| x as usize).ok_or(format!("bad {k}"))).collect()
        };
        let keys = |k| -> std::result::Result<Vec<String>, String> {
            let all = list(k)?.iter().map(|x| x.as_str().map(str::to_string).ok_or(format!("bad {k}")));
            let all = all.collect::<std::result::Result<Vec<_>, _>>()?;
            match all.iter().find(|k| !store.contains_key(*k)) {
                Some(k) => Err(format!("no tensor {k}")),
                None => Ok(all),
            }
        };
        let (op, variant) = (text("op")?, text("variant")?);
        let mut args = vec![Arg::parse(&j["input"])?];
        args.extend(Arg::parse_all(list("args")?)?);
        let kwargs = j["kwargs"].as_object().ok_or("no kwargs")?;
        let mut case = GoldenCase {
            operator: if variant.is_empty() { op } else { format!("{op}:{variant}") },
            index: j["index"].as_u64().ok_or("no index")?,
            args,
            kwargs: kwargs
                .iter()
                .map(|(k, v)| Ok((k.clone(), Arg::parse(v)?)))
                .collect::<std::result::Result<_, String>>()?,
            pick: numbers("pick")?,
            diff: numbers("diff")?,
            outputs: keys("outputs")?,
            cotangents: keys("cotangents")?,
            wrt: keys("wrt")?,
            grads: keys("grads")?,
            gradgrads: if j["gradgrads"].is_null() { None } else { Some(keys("gradgrads")?) },
            leaves: HashMap::new(),
            store: store.clone(),
        };
        for key in &case.wrt {
            let leaf = Tensor::from(store[key].cast(DType::F64)).requires_grad();
            case.leaves.insert(key.clone(), leaf);
        }
        Ok(case)
    }

    /// The tensor with that key: a leaf that collects a gradient if the case differentiates with
    /// respect to it; floats as f64.
    pub(super) fn by_key(&self, key: &str) -> Tensor {
        if let Some(leaf) = self.leaves.get(key) {
            return leaf.clone();
        }
        match self.store.get(key) {
            Some(l) if l.dtype().is_float() => Tensor::from(l.cast(DType::F64)),
            Some(l) => Tensor::from(l.clone()),
            None => Error::value(format!("the data has no tensor {key}")).into(),
        }
    }

    /// An argument, if it was given; `None` in Python counts as not given.
    pub fn get(&self, at: impl Into<Place>) -> Option<&Arg> {
        let at = at.into();
        let positional = at.position.and_then(|p| self.args.get(p));
        let arg = positional.or_else(|| at.name.and_then(|n| self.kwargs.get(n)));
        arg.filter(|a| **a != Arg::None)
    }
    /// True if an argument was given and is not `None`.
    pub fn has(&self, at: impl Into<Place>) -> bool {
        self.get(at).is_some()
    }
    fn typed<T>(&self, at: impl Into<Place>, what: &str, f: impl Fn(&Arg) -> Option<T>) -> Option<T> {
        let at = at.into();
        self.get(at).map(|a| f(a).unwrap_or_else(|| panic!("argument {at:?} is {a:?}, not {what}")))
    }

    /// A tensor; one that carries an error if it was not given.
    pub fn tensor(&self, at: impl Into<Place>) -> Tensor {
        let at = at.into();
        self.opt_tensor(at).unwrap_or_else(|| Error::value(format!("no tensor at {at:?}")).into())
    }
    /// A tensor, if it was given.
    pub fn opt_tensor(&self, at: impl Into<Place>) -> Option<Tensor> {
        self.typed(at, "a tensor", |a| if let Arg::Tensor(k) = a { Some(self.by_key(k)) } else { None })
    }
    /// A list of tensors.
    pub fn tensors(&self, at: impl Into<Place>) -> Vec<Tensor> {
        let one = |a: &Arg| if let Arg::Tensor(k) = a { Some(self.by_key(k)) } else { None };
        self.typed(at, "a list of tensors", |a| a.items()?.iter().map(one).collect()).unwrap_or_default()
    }
    /// A tensor or a number, as a tensor.
    pub fn operand(&self, at: impl Into<Place>) -> Tensor {
        let at = at.into();
        let got = self.typed(at, "a tensor or a number", |a| match a {
            Arg::Tensor(k) => Some(self.by_key(k)),
            Arg::Bool(b) => Some(Tensor::from(*b)),
            Arg::Int(i) => Some(Tensor::from(*i)),
            _ => a.float().map(Tensor::from),
        });
        got.unwrap_or_else(|| Error::value(format!("no operand at {at:?}")).into())
    }
    /// An integer.
    pub fn int(&self, at: impl Into<Place>, default: i64) -> i64 {
        self.opt_int(at).unwrap_or(default)
    }
    /// An integer, if it was given.
    pub fn opt_int(&self, at: impl Into<Place>) -> Option<i64> {
        self.typed(at, "an integer", Arg::int)
    }
    /// A number.
    pub fn float(&self, at: impl Into<Place>, default: f64) -> f64 {
        self.opt_float(at).unwrap_or(default)
    }
    /// A number, if it was given.
    pub fn opt_float(&self, at: impl Into<Place>) -> Option<f64> {
        self.typed(at, "a number", Arg::float)
    }
    /// A flag.
    pub fn bool(&self, at: impl Into<Place>, default: bool) -> bool {
        self.typed(at, "a flag", |a| if let Arg::Bool(b) = a { Some(*b) } else { None }).unwrap_or(default)
    }
    /// A word.
    pub fn str(&self, at: impl Into<Place>, default: &str) -> String {
        let got = self.typed(at, "a word", |a| if let Arg::Str(s) = a { Some(s.clone()) } else { None });
        got.unwrap_or_else(|| default.to_string())
    }
    /// Integers; a single one is a list of one.
    pub fn ints(&self, at: impl Into<Place>) -> Option<Vec<i64>> {
        self.typed(at, "a list of integers", Arg::ints)
    }
    /// One size for each of `n` dimensions: a list of `n`, or one number for all of them.
    pub fn sizes(&self, at: impl Into<Place>, n: usize, default: i64) -> Vec<usize> {
        let got = self.ints(at).unwrap_or_else(|| vec![default]);
        let got = if got.len() == 1 { vec![got[0]; n] } else { got };
        assert_eq!(got.len(), n, "{got:?} for {n} dimensions");
        got.iter().map(|&x| usize::try_from(x).expect("a size is not negative")).collect()
    }
    /// An element type, if it was given.
    pub fn dtype(&self, at: impl Into<Place>) -> Option<DType> {
        self.typed(at, "an element type", |a| if let Arg::DType(d) = a { Some(*d) } else { None })
    }
    /// Results of one tensor, the form adapters return.
    pub fn one(t: Tensor) -> Result<Vec<Tensor>> {
        Ok(vec![t])
    }
}

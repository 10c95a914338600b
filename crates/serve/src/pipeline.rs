//! Pipelines: several exported models as one, without a way over the network between them.
//!
//! `pipeline.json` in the directory of a version lists steps. Each names a model's directory, relative to its own, and
//! which value each input takes and each output becomes:
//!
//! ```json
//! {"name": "read", "outputs": ["text"], "steps": [
//!   {"model": "../../find/1", "inputs": {"image": "image"}, "outputs": {"crop": "line"}},
//!   {"model": "../../recognize/3", "inputs": {"x": "line"}, "outputs": {"label": "text"}}]}
//! ```
//!
//! Values that no step computes are the pipeline's inputs. Each model must be batched, with the batch as its only free
//! dimension, so that the batches of a pipeline run as wholes.

use crate::served::{Executable, Run};
use ir::{Error, Literal, Result};
use model::{Axis, Dimension, Model, Prepared, Signature, TensorSpec};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The file that makes a directory a pipeline.
pub const FILE: &str = "pipeline.json";
const BATCH: &str = "batch";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    steps: Vec<StepRow>,
    outputs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepRow {
    model: String,
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
}

/// Which values a step reads and writes, by number.
#[derive(Clone)]
struct Wiring {
    inputs: Vec<usize>,
    outputs: Vec<Option<usize>>,
}

/// Several models as one.
pub struct Pipeline {
    signature: Signature,
    steps: Vec<(Model, Wiring)>,
    /// How many values there are; the first are the inputs.
    values: usize,
    outputs: Vec<usize>,
}

/// Values by name, each with its type.
#[derive(Default)]
struct Values {
    names: Vec<String>,
    specs: Vec<TensorSpec>,
}

impl Values {
    fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }
    /// Adds a value of this type; its batch axis has the pipeline's name.
    fn add(&mut self, name: &str, spec: &TensorSpec) -> usize {
        let mut shape = spec.shape.clone();
        shape[0] = Axis::Free(BATCH.into());
        self.names.push(name.into());
        self.specs.push(TensorSpec { name: name.into(), dtype: spec.dtype.clone(), shape });
        self.names.len() - 1
    }
}

impl Pipeline {
    /// Reads the description and the models that it names.
    pub fn load(dir: &Path, device: Option<&str>) -> Result<Pipeline> {
        let path = dir.join(FILE);
        let bad = |e: String| Error::format(format!("{FILE}: {e}"));
        let text = std::fs::read_to_string(&path).map_err(|e| bad(e.to_string()))?;
        let description: Description = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let mut models = Vec::new();
        for row in &description.steps {
            let model = Model::load_on(dir.join(&row.model), device)?;
            if !model.signature().is_batched || model.signature().dims.len() != 1 {
                return Err(bad(format!("{}: only the batch may be free, and rows must be independent", row.model)));
            }
            models.push(model);
        }
        let mut values = Values::default();
        // Inputs first: what no step computes.
        for (row, model) in description.steps.iter().zip(&models) {
            for spec in &model.signature().inputs {
                let name =
                    row.inputs.get(&spec.name).ok_or_else(|| bad(format!("{}: no {:?}", row.model, spec.name)))?;
                let is_computed = description.steps.iter().any(|s| s.outputs.values().any(|o| o == name));
                if !is_computed && values.find(name).is_none() {
                    values.add(name, spec);
                }
            }
        }
        let inputs = values.specs.clone();
        let mut steps = Vec::new();
        let mut dim = Dimension::new(BATCH);
        for (row, model) in description.steps.iter().zip(models) {
            let own = &model.signature().dims[0];
            dim.min = dim.min.max(own.min);
            dim.max = dim.max.min(own.max);
            let wiring = wire(row, &model, &mut values).map_err(bad)?;
            steps.push((model, wiring));
        }
        let output = |name: &String| values.find(name).ok_or_else(|| bad(format!("no step computes {name:?}")));
        let outputs = description.outputs.iter().map(output).collect::<Result<Vec<usize>>>()?;
        let signature = Signature {
            name: description.name,
            dims: vec![dim],
            inputs,
            outputs: outputs.iter().map(|&i| values.specs[i].clone()).collect(),
            is_batched: true,
        };
        Ok(Pipeline { signature, steps, values: values.names.len(), outputs })
    }
}

/// Connects a step to the values before it.
fn wire(row: &StepRow, model: &Model, values: &mut Values) -> std::result::Result<Wiring, String> {
    let signature = model.signature();
    let input = |spec: &TensorSpec| {
        let name = &row.inputs[&spec.name];
        let at = values.find(name).ok_or_else(|| format!("{}: {name:?} is not computed yet", row.model))?;
        let given = &values.specs[at];
        if (&given.dtype, &given.shape[1..]) != (&spec.dtype, &spec.shape[1..]) {
            return Err(format!(
                "{}: {} takes {}, but {name} is {}",
                row.model,
                spec.name,
                spec.describe(),
                given.describe()
            ));
        }
        Ok(at)
    };
    let inputs = signature.inputs.iter().map(input).collect::<std::result::Result<Vec<_>, String>>()?;
    let mut outputs = Vec::new();
    for spec in &signature.outputs {
        let name = row.outputs.get(&spec.name);
        if let Some(name) = name.filter(|n| values.find(n).is_some()) {
            return Err(format!("{}: {name:?} is there already", row.model));
        }
        outputs.push(name.map(|name| values.add(name, spec)));
    }
    Ok(Wiring { inputs, outputs })
}

impl Executable for Pipeline {
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn prepare(&self, sizes: &[usize]) -> Result<Arc<dyn Run>> {
        let step = |(model, wiring): &(Model, Wiring)| Ok((model.prepare(sizes)?, wiring.clone()));
        let steps = self.steps.iter().map(step).collect::<Result<_>>()?;
        Ok(Arc::new(PreparedPipeline { steps, values: self.values, outputs: self.outputs.clone() }))
    }
    fn weight_bytes(&self) -> usize {
        self.steps.iter().map(|(m, _)| m.weight_bytes()).sum()
    }
}

struct PreparedPipeline {
    steps: Vec<(Prepared, Wiring)>,
    values: usize,
    outputs: Vec<usize>,
}

impl Run for PreparedPipeline {
    fn run(&self, inputs: &[Literal]) -> Result<Vec<Literal>> {
        let mut values: Vec<Option<Literal>> = inputs.iter().cloned().map(Some).collect();
        values.resize(self.values, None);
        let get = |values: &[Option<Literal>], i: usize| {
            values[i].clone().ok_or_else(|| Error::bug("a pipeline reads a value before it is computed"))
        };
        for (model, wiring) in &self.steps {
            let inputs = wiring.inputs.iter().map(|&i| get(&values, i)).collect::<Result<Vec<_>>>()?;
            for (to, value) in wiring.outputs.iter().zip(model.run(&inputs)?) {
                if let Some(to) = to {
                    values[*to] = Some(value);
                }
            }
        }
        self.outputs.iter().map(|&i| get(&values, i)).collect()
    }
}

//! Inference over REST as the Open Inference Protocol (KServe v2) has it, with the binary tensor extension.

use crate::answer::Answer;
use crate::app::Query;
use crate::failure::{Answered, Failure};
use crate::input::{Input, Pieces};
use crate::regions::{Regions, Slot};
use crate::served::Served;
use crate::wire::{self, Whole};
use bytes::Bytes;
use model::Axis;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

#[derive(Deserialize)]
struct InferRequest<'a> {
    id: Option<String>,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    inputs: Vec<InputTensor<'a>>,
    outputs: Option<Vec<OutputTensor>>,
}

#[derive(Deserialize)]
struct InputTensor<'a> {
    name: String,
    #[serde(deserialize_with = "wire::sizes")]
    shape: Vec<i64>,
    #[serde(borrow)]
    datatype: Cow<'a, str>,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OutputTensor {
    name: String,
    #[serde(default)]
    parameters: Parameters,
}

/// Parameters that mean something here; others are passed over without being kept.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    binary_data_size: Option<Value>,
    binary_data_output: Option<Value>,
    binary_data: Option<Value>,
    timeout: Option<Value>,
    priority: Option<Value>,
    shared_memory_region: Option<Value>,
    shared_memory_offset: Option<Value>,
    shared_memory_byte_size: Option<Value>,
}

impl Parameters {
    /// The place of a tensor in shared memory, if it has one.
    fn slot(&self, tensor: &str, regions: &Regions) -> Answered<Option<Slot>> {
        let Some(region) = &self.shared_memory_region else { return Ok(None) };
        let bad = || Failure::invalid(format!("{tensor}: shared_memory_region must be a name"));
        let region = region.as_str().ok_or_else(bad)?;
        let size = number("shared_memory_byte_size", &self.shared_memory_byte_size)?;
        let size = size.ok_or_else(|| Failure::invalid(format!("{tensor}: shared_memory_byte_size is needed")))?;
        let offset = number("shared_memory_offset", &self.shared_memory_offset)?.unwrap_or(0);
        regions.slot(tensor, region, offset, size).map(Some)
    }
}

/// How an output is to be written.
enum Form {
    Json,
    Binary,
    Shared(Slot),
}

/// How the answer is to be written.
#[derive(Default)]
pub struct Wanted {
    id: Option<String>,
    /// Outputs by name; none: all.
    outputs: Option<Vec<(String, Form)>>,
    is_binary: bool,
}

/// A body: JSON, and tensors after it.
pub struct Encoded {
    /// The JSON and the tensors that follow it.
    pub body: Vec<u8>,
    /// Large tensors after these, where they lie in the outputs of the batch.
    pub tail: Vec<Bytes>,
    /// Bytes of the JSON, if tensors follow.
    pub json_length: Option<usize>,
}

fn json_error(e: serde_json::Error) -> Failure {
    Failure::invalid(format!("the request is not what the protocol asks: {e}"))
}

/// A parameter that is a number. One of another kind is refused: to pass it over would change what is asked for.
fn number(name: &str, value: &Option<Value>) -> Answered<Option<u64>> {
    let bad = || Failure::invalid(format!("the parameter {name} must be a non-negative integer"));
    value.as_ref().map(|v| Whole::deserialize(v).map(|n| n.0).map_err(|_| bad())).transpose()
}

/// A parameter that is true or false.
fn flag(name: &str, value: &Option<Value>) -> Answered<Option<bool>> {
    let bad = || Failure::invalid(format!("the parameter {name} must be true or false"));
    value.as_ref().map(|v| v.as_bool().ok_or_else(bad)).transpose()
}

/// A request from its body. `json_length` is the header `Inference-Header-Content-Length`.
pub fn decode(
    served: &Served,
    mut body: Pieces,
    json_length: Option<usize>,
    regions: &Regions,
) -> Answered<(Query, Wanted)> {
    if json_length == Some(0) {
        return decode_raw(served, body);
    }
    let beyond = || Failure::invalid("Inference-Header-Content-Length is beyond the body");
    let text = body.take_joined(json_length.unwrap_or(body.len())).ok_or_else(beyond)?;
    let request: InferRequest = serde_json::from_slice(&text).map_err(json_error)?;
    let mut inputs = Vec::with_capacity(request.inputs.len());
    for tensor in request.inputs {
        let dtype = wire::dtype(&tensor.datatype)?;
        let slot = tensor.parameters.slot(&tensor.name, regions)?;
        let value = match (tensor.data, &tensor.parameters.binary_data_size, slot) {
            (None, None, Some(slot)) => Input::new(&tensor.name, dtype, &tensor.shape, slot.read(&tensor.name)?)?,
            (None, Some(size), None) => {
                let short = || Failure::invalid(format!("{}: binary_data_size is beyond the body", tensor.name));
                let Whole(size) = Whole::deserialize(size).map_err(|_| short())?;
                let own = body.take_tensor(size).ok_or_else(short)?;
                Input::new(&tensor.name, dtype, &tensor.shape, own)?
            }
            (Some(data), None, None) => {
                let parsed = wire::parse(&tensor.name, dtype, data.get())?;
                Input::new(&tensor.name, dtype, &tensor.shape, parsed.bytes.into())?
            }
            _ => {
                let e = "one of data, binary_data_size and shared_memory_region is needed";
                return Err(Failure::invalid(format!("{}: {e}", tensor.name)));
            }
        };
        inputs.push((tensor.name, value));
    }
    if !body.is_empty() {
        return Err(Failure::invalid(format!("{} bytes follow the last tensor", body.len())));
    }
    let own = &request.parameters;
    let is_binary = flag("binary_data_output", &own.binary_data_output)?.unwrap_or(false);
    let output = |o: OutputTensor| {
        let own = flag("binary_data", &o.parameters.binary_data)?;
        let form = match o.parameters.slot(&o.name, regions)? {
            Some(_) if own == Some(true) => {
                return Err(Failure::invalid(format!("{}: either binary_data or shared_memory_region", o.name)));
            }
            Some(slot) => Form::Shared(slot),
            None if own.unwrap_or(is_binary) => Form::Binary,
            None => Form::Json,
        };
        Ok((o.name, form))
    };
    let outputs = request.outputs.map(|all| all.into_iter().map(output).collect::<Answered<_>>()).transpose()?;
    let timeout = number("timeout", &own.timeout)?.filter(|t| *t > 0).map(Duration::from_micros);
    let priority = number("priority", &own.priority)?.map_or(0, |p| u32::try_from(p).unwrap_or(u32::MAX));
    Ok((Query { inputs, timeout, priority }, Wanted { id: request.id, outputs, is_binary }))
}

/// The body is the one input's bytes; the size of its free axis follows from their number.
fn decode_raw(served: &Served, mut body: Pieces) -> Answered<(Query, Wanted)> {
    let [spec] = &served.model.signature().inputs[..] else {
        return Err(Failure::invalid("a body without JSON needs a model with one input"));
    };
    let dtype = spec.dtype()?;
    let fixed: usize = spec.shape.iter().map(|a| if let Axis::Fixed(n) = a { *n } else { 1 }).product();
    let free = spec.shape.iter().filter(|a| !matches!(a, Axis::Fixed(_))).count();
    if free > 1 {
        return Err(Failure::invalid("a body without JSON needs an input with one free axis"));
    }
    let size = body.len() / (fixed * dtype.size()).max(1);
    let shape: Vec<i64> =
        spec.shape.iter().map(|a| if let Axis::Fixed(n) = a { *n as i64 } else { size as i64 }).collect();
    let value = Input::new(&spec.name, dtype, &shape, body.take_tensor(body.len()).unwrap_or_default())?;
    let query = Query { inputs: vec![(spec.name.clone(), value)], timeout: None, priority: 0 };
    Ok((query, Wanted { is_binary: true, ..Wanted::default() }))
}

/// The answer's body, written by hand: neither JSON nor tensors are built first.
pub fn encode(served: &Served, answer: &Answer, wanted: &Wanted) -> Answered<Encoded> {
    let specs = &served.model.signature().outputs;
    let find = |name: &str| {
        let index = specs.iter().position(|s| s.name == name);
        index.ok_or_else(|| Failure::invalid(format!("{} has no output {name:?}", served.name)))
    };
    let usual = if wanted.is_binary { Form::Binary } else { Form::Json };
    let outputs: Vec<(usize, &Form)> = match &wanted.outputs {
        None => (0..specs.len()).map(|i| (i, &usual)).collect(),
        Some(asked) => asked.iter().map(|(n, form)| Ok((find(n)?, form))).collect::<Answered<_>>()?,
    };
    let is_binary = |form: &Form| matches!(form, Form::Binary);
    let values: Vec<(Vec<usize>, &[u8])> = outputs.iter().map(|(i, _)| answer.output(*i)).collect();
    let copied = |((i, form), (_, bytes)): (&(usize, &Form), &(Vec<usize>, &[u8]))| {
        if is_binary(form) && answer.shared(*i).is_none() { bytes.len() } else { 0 }
    };
    let copied: usize = outputs.iter().zip(&values).map(copied).sum();
    let mut text = String::with_capacity(256 * (outputs.len() + 1) + copied);
    text.push_str("{\"model_name\":");
    quote(&mut text, &served.name);
    let _ = write!(text, ",\"model_version\":\"{}\"", served.version);
    if let Some(id) = &wanted.id {
        text.push_str(",\"id\":");
        quote(&mut text, id);
    }
    let _ = write!(text, ",\"parameters\":{{\"batch_size\":{}", answer.batch_size);
    for (name, size) in &answer.padded {
        text.push(',');
        quote(&mut text, name);
        let _ = write!(text, ":{size}");
    }
    text.push_str("},\"outputs\":[");
    for (k, ((index, form), (shape, bytes))) in outputs.iter().zip(&values).enumerate() {
        let (name, dtype) = (&specs[*index].name, answer.outputs[*index].dtype());
        let datatype = wire::datatype(dtype)
            .ok_or_else(|| Failure::invalid(format!("{name}: the protocol has no type for {dtype}")))?;
        text.push_str(if k > 0 { ",{\"name\":" } else { "{\"name\":" });
        quote(&mut text, name);
        let _ = write!(text, ",\"datatype\":\"{datatype}\",\"shape\":[");
        for (axis, size) in shape.iter().enumerate() {
            let _ = write!(text, "{}{size}", if axis > 0 { "," } else { "" });
        }
        match form {
            Form::Binary => {
                let _ = write!(text, "],\"parameters\":{{\"binary_data_size\":{}}}}}", bytes.len());
            }
            Form::Json => {
                text.push_str("],\"data\":");
                wire::flat(&mut text, dtype, bytes);
                text.push('}');
            }
            Form::Shared(slot) => {
                slot.write(name, bytes)?;
                text.push_str("],\"parameters\":{\"shared_memory_region\":");
                quote(&mut text, &slot.region.name);
                let (offset, len) = (slot.offset, bytes.len());
                let _ = write!(text, ",\"shared_memory_offset\":{offset},\"shared_memory_byte_size\":{len}}}}}");
            }
        }
    }
    text.push_str("]}");
    let json_length = outputs.iter().any(|(_, form)| is_binary(form)).then_some(text.len());
    let (mut body, mut tail) = (text.into_bytes(), Vec::new());
    for ((index, _), (_, bytes)) in outputs.iter().zip(&values).filter(|((_, form), _)| is_binary(form)) {
        match answer.shared(*index) {
            Some(shared) => tail.push(shared),
            None if tail.is_empty() => body.extend_from_slice(bytes),
            None => tail.push(Bytes::copy_from_slice(bytes)),
        }
    }
    Ok(Encoded { body, tail, json_length })
}

/// A JSON string.
fn quote(out: &mut String, text: &str) {
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&json!(text).to_string());
    }
}

/// What a model takes and returns: `GET /v2/models/NAME`.
pub fn metadata(served: &Served, versions: &[u64]) -> Value {
    let signature = served.model.signature();
    json!({
        "name": served.name,
        "versions": versions.iter().map(u64::to_string).collect::<Vec<_>>(),
        "platform": "talweg",
        "inputs": signature.inputs.iter().map(tensor_metadata).collect::<Vec<_>>(),
        "outputs": signature.outputs.iter().map(tensor_metadata).collect::<Vec<_>>(),
    })
}

/// A shape of the protocol: -1 is any size.
pub fn wire_shape(spec: &model::TensorSpec) -> Vec<i64> {
    spec.shape.iter().map(|a| if let Axis::Fixed(n) = a { *n as i64 } else { -1 }).collect()
}

fn tensor_metadata(spec: &model::TensorSpec) -> Value {
    let datatype = spec.dtype().ok().and_then(wire::datatype).unwrap_or("BYTES");
    json!({ "name": spec.name, "datatype": datatype, "shape": wire_shape(spec) })
}

/// What Triton calls the configuration: batching and the shapes without the batch axis.
pub fn config(served: &Served) -> Value {
    let signature = served.model.signature();
    let skip = usize::from(signature.is_batched);
    let tensor = |spec: &model::TensorSpec| {
        let datatype = spec.dtype().ok().and_then(wire::datatype).unwrap_or("BYTES");
        json!({ "name": spec.name, "data_type": format!("TYPE_{datatype}"), "dims": wire_shape(spec)[skip..] })
    };
    json!({
        "name": served.name,
        "platform": "talweg",
        "backend": "talweg",
        "max_batch_size": if signature.is_batched { served.policy.batch_max } else { 0 },
        "input": signature.inputs.iter().map(tensor).collect::<Vec<_>>(),
        "output": signature.outputs.iter().map(tensor).collect::<Vec<_>>(),
        "dynamic_batching": { "max_queue_delay_microseconds": served.policy.delay_us },
        "parameters": { "latency_target_us": served.policy.latency_us },
    })
}

/// Rows or columns of TensorFlow Serving's `:predict`.
pub fn decode_predict(served: &Served, body: &[u8]) -> Answered<(Query, bool)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Predict<'a> {
        #[serde(borrow)]
        instances: Option<Vec<&'a RawValue>>,
        #[serde(borrow)]
        inputs: Option<&'a RawValue>,
        #[allow(dead_code)] // There is one signature.
        signature_name: Option<String>,
    }
    let request: Predict = serde_json::from_slice(body).map_err(json_error)?;
    let specs = &served.model.signature().inputs;
    type Named<'a> = std::collections::BTreeMap<String, &'a RawValue>;
    let named = |text: &'_ RawValue| serde_json::from_str::<Named>(text.get()).is_ok();
    let mut columns: Vec<(String, String)> = Vec::new();
    let is_row = request.instances.is_some();
    match (&request.instances, request.inputs) {
        (Some(rows), None) => {
            let is_named = rows.first().is_some_and(|r| named(r));
            for spec in specs {
                let mut list = Vec::with_capacity(rows.len());
                for row in rows {
                    list.push(if is_named {
                        let row: Named = serde_json::from_str(row.get()).map_err(json_error)?;
                        let missing = || Failure::invalid(format!("an instance has no {:?}", spec.name));
                        row.get(&spec.name).ok_or_else(missing)?.get()
                    } else {
                        row.get()
                    });
                }
                columns.push((spec.name.clone(), format!("[{}]", list.join(","))));
                if !is_named && specs.len() > 1 {
                    return Err(Failure::invalid("a model with several inputs needs instances with names"));
                }
            }
        }
        (None, Some(text)) if named(text) => {
            let all: Named = serde_json::from_str(text.get()).map_err(json_error)?;
            columns.extend(all.into_iter().map(|(n, v)| (n, v.get().to_string())));
        }
        (None, Some(text)) if specs.len() == 1 => columns.push((specs[0].name.clone(), text.get().to_string())),
        _ => return Err(Failure::invalid("either instances or inputs is needed")),
    }
    let mut inputs = Vec::new();
    for (name, text) in columns {
        let spec = specs.iter().find(|s| s.name == name);
        let spec = spec.ok_or_else(|| Failure::invalid(format!("{} takes no input {name:?}", served.name)))?;
        let parsed = wire::parse(&name, spec.dtype()?, &text)?;
        let shape: Vec<i64> = parsed.nesting.iter().map(|&n| n as i64).collect();
        let value = Input::new(&name, spec.dtype()?, &shape, parsed.bytes.into())?;
        inputs.push((name, value));
    }
    Ok((Query { inputs, timeout: None, priority: 0 }, is_row))
}

/// The answer in the form of the question.
pub fn encode_predict(served: &Served, answer: &Answer, is_row: bool) -> Answered<String> {
    let specs = &served.model.signature().outputs;
    let part = |i: usize, row: Option<usize>| -> Answered<String> {
        let (shape, bytes) = answer.output(i);
        let dtype = answer.outputs[i].dtype();
        wire::datatype(dtype).ok_or_else(|| Failure::invalid(format!("JSON has no form for {dtype}")))?;
        let mut text = String::new();
        match (row, &shape[..]) {
            (Some(r), [n, rest @ ..]) if r < *n => {
                let size = bytes.len() / n;
                wire::nested(&mut text, dtype, rest, &bytes[r * size..(r + 1) * size]);
            }
            _ => wire::nested(&mut text, dtype, &shape, bytes),
        }
        Ok(text)
    };
    let object = |row: Option<usize>| -> Answered<String> {
        if specs.len() == 1 {
            return part(0, row);
        }
        let member = |(i, s): (usize, &model::TensorSpec)| Ok(format!("{}:{}", json!(s.name), part(i, row)?));
        Ok(format!("{{{}}}", specs.iter().enumerate().map(member).collect::<Answered<Vec<_>>>()?.join(",")))
    };
    if !is_row {
        return Ok(format!("{{\"outputs\":{}}}", object(None)?));
    }
    let rows = answer.output(0).0.first().copied().unwrap_or(0);
    let all = (0..rows).map(|r| object(Some(r))).collect::<Answered<Vec<_>>>()?;
    Ok(format!("{{\"predictions\":[{}]}}", all.join(",")))
}

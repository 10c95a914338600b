//! The Open Inference Protocol over gRPC.

use crate::app::{App, Query};
use crate::failure::{Answered, Failure};
use crate::input::{Data, Input};
use crate::proto::*;
use crate::regions::{Regions, Slot};
use crate::repository::Selector;
use crate::served::Served;
use crate::{rest, wire};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ir::{DType, Literal};
use prost::Message;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;
use tonic_prost::ProstCodec;

/// One call: decode, answer, encode.
async fn unary<Q, A, F>(app: Arc<App>, request: Request, f: impl Fn(Arc<App>, Q, Option<Duration>) -> F) -> Response
where
    Q: Message + Default + Send + 'static,
    A: Message + Default + Send + 'static,
    F: Future<Output = Answered<A>>,
{
    let timeout = request.headers().get("grpc-timeout").and_then(|v| v.to_str().ok()).and_then(grpc_timeout);
    let limit = app.options.body_max;
    let service = tower::service_fn(|q: tonic::Request<Q>| {
        let answer = f(app.clone(), q.into_inner(), timeout);
        async { answer.await.map(tonic::Response::new).map_err(Status::from) }
    });
    let grpc = tonic::server::Grpc::new(ProstCodec::<A, Q>::default());
    grpc.max_decoding_message_size(limit)
        .max_encoding_message_size(usize::MAX)
        .unary(service, request)
        .await
        .map(Body::new)
}

/// The header `grpc-timeout`: a number and a unit.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let n: u64 = number.parse().ok().filter(|n| *n < 100_000_000)?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

/// Every method of `inference.GRPCInferenceService`.
pub async fn call(State(app): State<Arc<App>>, request: Request) -> Response {
    let method = request.uri().path().rsplit('/').next().unwrap_or("").to_string();
    match method.as_str() {
        "ServerLive" => unary(app, request, |_, _: Empty, _| async { Ok(LiveResponse { live: true }) }).await,
        "ServerReady" => {
            unary(app, request, |app, _: Empty, _| async move { Ok(ReadyResponse { ready: app.unready().is_none() }) })
                .await
        }
        "ModelReady" => unary(app, request, |app, q: ModelRequest, _| model_ready(app, q)).await,
        "ServerMetadata" => {
            let answer = |app: Arc<App>| ServerMetadataResponse {
                name: "talweg".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                extensions: crate::http::extensions(&app).into_iter().map(String::from).collect(),
            };
            unary(app, request, |app, _: Empty, _| async move { Ok(answer(app)) }).await
        }
        "ModelMetadata" => unary(app, request, |app, q: ModelRequest, _| metadata(app, q)).await,
        "ModelInfer" => unary(app, request, infer).await,
        "ModelStatistics" => unary(app, request, |app, q: ModelRequest, _| statistics(app, q)).await,
        "RepositoryIndex" => unary(app, request, |app, q: RepositoryIndexRequest, _| index(app, q)).await,
        "RepositoryModelLoad" => {
            unary(app, request, |app, q: RepositoryModelRequest, _| async move {
                app.load(&q.model_name, false).await.map(|()| Empty {})
            })
            .await
        }
        "RepositoryModelUnload" => {
            unary(app, request, |app, q: RepositoryModelRequest, _| async move {
                app.unload(&q.model_name, false).await.map(|()| Empty {})
            })
            .await
        }
        "SystemSharedMemoryStatus" => unary(app, request, |app, q: RegionRequest, _| regions(app, q)).await,
        "SystemSharedMemoryRegister" => {
            unary(app, request, |app, q: RegionStatus, _| async move {
                app.regions.register(&q.name, &q.key, q.offset, q.byte_size).map(|()| Empty {})
            })
            .await
        }
        "SystemSharedMemoryUnregister" => {
            unary(app, request, |app, q: RegionRequest, _| async move {
                app.regions.unregister(Some(&*q.name).filter(|name| !name.is_empty()));
                Ok(Empty {})
            })
            .await
        }
        // Clients ask for none to be left before they begin.
        "CudaSharedMemoryStatus" | "CudaSharedMemoryUnregister" => {
            unary(app, request, |_, _: RegionRequest, _| async { Ok(Empty {}) }).await
        }
        _ => Status::unimplemented(format!("there is no method {method}")).into_http(),
    }
}

async fn model_ready(app: Arc<App>, q: ModelRequest) -> Answered<ReadyResponse> {
    let found = app.repository.find(&q.name, &Selector::parse(Some(&q.version))?);
    Ok(ReadyResponse { ready: found.is_ok() && app.unready().is_none() })
}

async fn metadata(app: Arc<App>, q: ModelRequest) -> Answered<ModelMetadataResponse> {
    let served = app.find(&q.name, &Selector::parse(Some(&q.version))?).await?;
    let signature = served.model.signature();
    let tensor = |s: &model::TensorSpec| TensorMetadata {
        name: s.name.clone(),
        datatype: s.dtype().ok().and_then(wire::datatype).unwrap_or("BYTES").into(),
        shape: rest::wire_shape(s),
    };
    let (versions, _) = app.repository.versions(&q.name);
    Ok(ModelMetadataResponse {
        name: served.name.clone(),
        versions: versions.iter().map(u64::to_string).collect(),
        platform: "talweg".into(),
        inputs: signature.inputs.iter().map(tensor).collect(),
        outputs: signature.outputs.iter().map(tensor).collect(),
    })
}

async fn statistics(app: Arc<App>, q: ModelRequest) -> Answered<ModelStatisticsResponse> {
    let of = |s: Arc<Served>| {
        let t = s.stats.totals();
        let duration = |count: u64, us: u64| Some(StatisticDuration { count, ns: us * 1000 });
        let inference_stats = InferStatistics {
            success: duration(t.success, t.request_us),
            fail: duration(t.failures, 0),
            queue: duration(t.success, t.queue_us),
            compute_input: duration(t.success, t.input_us),
            compute_infer: duration(t.success, t.infer_us),
            compute_output: duration(t.success, t.output_us),
            cache_hit: duration(t.cache_hits, 0),
            cache_miss: duration(t.cache_misses, 0),
        };
        ModelStatistics {
            name: s.name.clone(),
            version: s.version.to_string(),
            inference_count: t.rows,
            execution_count: t.executions,
            inference_stats: Some(inference_stats),
        }
    };
    let named = app.repository.ready().into_iter().filter(|s| q.name.is_empty() || s.name == q.name);
    let model_stats: Vec<ModelStatistics> = named.map(of).collect();
    if model_stats.is_empty() && !q.name.is_empty() {
        return Err(Failure::not_found(format!("there is no model {:?}", q.name)));
    }
    Ok(ModelStatisticsResponse { model_stats })
}

async fn index(app: Arc<App>, q: RepositoryIndexRequest) -> Answered<RepositoryIndexResponse> {
    let rows = app.repository.index().into_iter().filter(|r| !q.ready || r.state == "READY");
    let row = |r: crate::repository::IndexRow| ModelIndex {
        name: r.name,
        version: r.version,
        state: r.state,
        reason: r.reason,
    };
    Ok(RepositoryIndexResponse { models: rows.map(row).collect() })
}

async fn regions(app: Arc<App>, q: RegionRequest) -> Answered<RegionStatuses> {
    let found = app.regions.status(Some(&*q.name).filter(|name| !name.is_empty()))?;
    let row = |r: Arc<crate::regions::Region>| {
        let (name, key) = (r.name.clone(), r.key.clone());
        (name.clone(), RegionStatus { name, key, offset: r.offset, byte_size: r.byte_size })
    };
    Ok(RegionStatuses { regions: found.into_iter().map(row).collect() })
}

/// The place of a tensor in shared memory, if it has one.
fn slot(tensor: &str, parameters: &HashMap<String, InferParameter>, regions: &Regions) -> Answered<Option<Slot>> {
    let choice = |name: &str| parameters.get(name).and_then(|p| p.choice.as_ref());
    let number = |name: &str| match choice(name) {
        None => Ok(None),
        Some(Parameter::Int64(n)) if *n >= 0 => Ok(Some(n.unsigned_abs())),
        Some(Parameter::Uint64(n)) => Ok(Some(*n)),
        Some(_) => Err(Failure::invalid(format!("the parameter {name} must be a non-negative integer"))),
    };
    let region = match choice("shared_memory_region") {
        None => return Ok(None),
        Some(Parameter::String(name)) => name,
        Some(_) => return Err(Failure::invalid(format!("{tensor}: shared_memory_region must be a name"))),
    };
    let size = number("shared_memory_byte_size")?;
    let size = size.ok_or_else(|| Failure::invalid(format!("{tensor}: shared_memory_byte_size is needed")))?;
    regions.slot(tensor, region, number("shared_memory_offset")?.unwrap_or(0), size).map(Some)
}

async fn infer(app: Arc<App>, q: ModelInferRequest, timeout: Option<Duration>) -> Answered<ModelInferResponse> {
    let served = app.find(&q.model_name, &Selector::parse(Some(&q.model_version))?).await?;
    let slots = q.inputs.iter().map(|t| slot(&t.name, &t.parameters, &app.regions));
    let slots = slots.collect::<Answered<Vec<Option<Slot>>>>()?;
    let is_raw = !q.raw_input_contents.is_empty();
    if is_raw && q.raw_input_contents.len() != slots.iter().filter(|s| s.is_none()).count() {
        return Err(Failure::invalid("raw_input_contents must hold every input that is not in shared memory"));
    }
    let mut raw = q.raw_input_contents.iter();
    let mut inputs = Vec::with_capacity(q.inputs.len());
    for (tensor, slot) in q.inputs.iter().zip(slots) {
        let dtype = wire::dtype(&tensor.datatype)?;
        let value = if let Some(slot) = slot {
            if tensor.contents.is_some() {
                return Err(Failure::invalid(format!("{}: either contents or shared memory", tensor.name)));
            }
            Input::new(&tensor.name, dtype, &tensor.shape, slot.read(&tensor.name)?)?
        } else if let Some(own) = raw.next() {
            Input::new(&tensor.name, dtype, &tensor.shape, Data::Pieces(vec![own.clone()]))?
        } else {
            let bytes = contents(&tensor.name, dtype, tensor.contents.as_ref())?;
            Input::new(&tensor.name, dtype, &tensor.shape, bytes.into())?
        };
        inputs.push((tensor.name.clone(), value));
    }
    let number = |name: &str| match q.parameters.get(name).and_then(|p| p.choice.as_ref()) {
        Some(Parameter::Int64(n)) => u64::try_from(*n).ok(),
        Some(Parameter::Uint64(n)) => Some(*n),
        _ => None,
    };
    let own = number("timeout").filter(|t| *t > 0).map(Duration::from_micros);
    let timeout = [own, timeout].into_iter().flatten().min();
    let priority = number("priority").map_or(0, |p| u32::try_from(p).unwrap_or(u32::MAX));
    let asked = q.outputs.iter().map(|o| Ok((o.name.clone(), slot(&o.name, &o.parameters, &app.regions)?)));
    let asked = asked.collect::<Answered<Requested>>()?;
    let (answer, _counted) = app.infer(&served, Query { inputs, timeout, priority }, None, None).await?;
    respond(&served, &answer, q.id, asked)
}

/// The outputs that a request asks for, each with its place in shared memory, if it has one; none: all.
type Requested = Vec<(String, Option<Slot>)>;

fn respond(
    served: &Served,
    answer: &crate::answer::Answer,
    id: String,
    asked: Requested,
) -> Answered<ModelInferResponse> {
    let specs = &served.model.signature().outputs;
    let all = || specs.iter().map(|s| (s.name.clone(), None)).collect();
    let asked: Requested = if asked.is_empty() { all() } else { asked };
    let (mut outputs, mut raw) = (Vec::new(), Vec::new());
    for (name, slot) in asked {
        let index = specs.iter().position(|s| s.name == name);
        let index = index.ok_or_else(|| Failure::invalid(format!("{} has no output {name:?}", served.name)))?;
        let (shape, bytes) = answer.output(index);
        let dtype = answer.outputs[index].dtype();
        let datatype = wire::datatype(dtype)
            .ok_or_else(|| Failure::invalid(format!("{name}: the protocol has no type for {dtype}")))?;
        let shape = shape.iter().map(|d| *d as i64).collect();
        let mut parameters = HashMap::new();
        if let Some(slot) = slot {
            slot.write(&name, bytes)?;
            let mut set = |name: &str, value| parameters.insert(name.into(), InferParameter { choice: Some(value) });
            set("shared_memory_region", Parameter::String(slot.region.name.clone()));
            set("shared_memory_offset", Parameter::Int64(slot.offset as i64));
            set("shared_memory_byte_size", Parameter::Int64(bytes.len() as i64));
            // Outputs and their contents have the same places.
            raw.push(bytes::Bytes::new());
        } else {
            raw.push(answer.shared(index).unwrap_or_else(|| bytes::Bytes::copy_from_slice(bytes)));
        }
        outputs.push(InferTensor { name, datatype: datatype.into(), shape, parameters, contents: None });
    }
    let sizes = answer.padded.iter().map(|(name, size)| (name.clone(), *size));
    let sizes = std::iter::once(("batch_size".to_string(), answer.batch_size)).chain(sizes);
    let number = |(name, n): (String, usize)| (name, InferParameter { choice: Some(Parameter::Int64(n as i64)) });
    Ok(ModelInferResponse {
        model_name: served.name.clone(),
        model_version: served.version.to_string(),
        id,
        parameters: sizes.map(number).collect(),
        outputs,
        raw_output_contents: raw,
    })
}

/// Typed contents as bytes.
fn contents(name: &str, dtype: DType, contents: Option<&InferTensorContents>) -> Answered<Vec<u8>> {
    let c = contents.ok_or_else(|| Failure::invalid(format!("{name}: no data")))?;
    let ints = |values: &mut dyn Iterator<Item = i128>| -> Answered<Vec<u8>> {
        let values: Vec<i128> = values.collect();
        let made = Literal::from_ints(dtype, [values.len()], &values);
        if made.to_ints() != values {
            return Err(Failure::invalid(format!("{name}: a number does not fit its datatype")));
        }
        Ok(made.bytes().to_vec())
    };
    match dtype {
        DType::Bool => Ok(c.bools.iter().map(|b| u8::from(*b)).collect()),
        DType::I8 | DType::I16 | DType::I32 => ints(&mut c.ints.iter().map(|x| (*x).into())),
        DType::U8 | DType::U16 | DType::U32 => ints(&mut c.uints.iter().map(|x| (*x).into())),
        DType::I64 => Ok(c.int64s.iter().flat_map(|x| x.to_le_bytes()).collect()),
        DType::U64 => Ok(c.uint64s.iter().flat_map(|x| x.to_le_bytes()).collect()),
        DType::F32 => Ok(c.fp32s.iter().flat_map(|x| x.to_le_bytes()).collect()),
        DType::F64 => Ok(c.fp64s.iter().flat_map(|x| x.to_le_bytes()).collect()),
        _ => Err(Failure::invalid(format!("{name}: this datatype needs raw_input_contents"))),
    }
}

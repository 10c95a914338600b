//! Routes of the server: health, the Open Inference Protocol, TensorFlow Serving's predict, metrics, the page.

use crate::app::App;
use crate::failure::{Answered, Failure, Kind};
use crate::peers::FromPeer;
use crate::repository::Selector;
use crate::{grpc, guard, openapi, rest};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;

/// Extensions of the protocol that the server knows.
pub const EXTENSIONS: [&str; 5] =
    ["binary_tensor_data", "model_repository", "model_configuration", "statistics", "schedule_policy"];
const JSON_LENGTH: &str = "inference-header-content-length";
/// Answers shorter than this are sent as they are.
const COMPRESS_MIN: usize = 1024;

type Held = State<Arc<App>>;
type Peer = Option<Extension<FromPeer>>;
type Names = Path<BTreeMap<String, String>>;

/// All routes, behind keys, counts and the access log.
pub fn router(app: Arc<App>) -> Router {
    routes().layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard)).with_state(app)
}

/// Routes for other processes of the same server, which nobody else reaches.
pub fn peer_router(app: Arc<App>) -> Router {
    routes().layer(Extension(FromPeer)).with_state(app)
}

fn routes() -> Router<Arc<App>> {
    let model = |suffix: &str| {
        [format!("/v2/models/{{name}}{suffix}"), format!("/v2/models/{{name}}/versions/{{version}}{suffix}")]
    };
    let mut router = Router::new()
        .route("/", get(page))
        .route("/openapi.json", get(|| async { json_response(&openapi::document()) }))
        .route("/metrics", get(metrics))
        .route("/v2", get(server_metadata))
        .route("/v2/", get(server_metadata))
        .route("/v2/repository/index", post(index))
        .route("/v2/repository/models/{name}/load", post(load))
        .route("/v2/repository/models/{name}/unload", post(unload))
        .route("/v2/models/stats", get(stats))
        .route("/v1/models/{name}", get(tensorflow_status).post(predict))
        .route("/v1/models/{name}/versions/{version}", get(tensorflow_status).post(predict))
        .route("/v1/models/{name}/labels/{label}", get(tensorflow_status).post(predict))
        .route("/inference.GRPCInferenceService/{method}", any(grpc::call));
    for path in ["/health", "/health/ready", "/v2/health/ready"] {
        router = router.route(path, get(ready));
    }
    for path in ["/health/live", "/v2/health/live"] {
        router = router.route(path, get(|| async { json_response(&json!({ "live": true })) }));
    }
    for path in model("") {
        router = router.route(&path, get(model_metadata));
    }
    for path in model("/ready") {
        router = router.route(&path, get(model_ready));
    }
    for path in model("/config") {
        router = router.route(&path, get(config));
    }
    for path in model("/stats") {
        router = router.route(&path, get(stats));
    }
    for path in model("/infer") {
        router = router.route(&path, post(infer));
    }
    router
        .fallback(|| async { Failure::not_found("there is no such path").into_response() })
        .method_not_allowed_fallback(not_allowed)
}

async fn not_allowed(uri: Uri) -> Response {
    let mut response = json_response(&json!({ "error": "the method is not allowed here" }));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    // A model and its verb, as in `NAME:predict`, share a route but not the methods.
    if uri.path().starts_with("/v1/models/") {
        let allowed = if uri.path().contains(':') { "POST" } else { "GET,HEAD" };
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    }
    response
}

fn json_response(value: &Value) -> Response {
    text_response("application/json", value.to_string().into_bytes())
}

fn text_response(kind: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

async fn page() -> Response {
    let mut response = text_response("text/html; charset=utf-8", include_bytes!("page.html").to_vec());
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

async fn metrics(State(app): Held, peer: Peer) -> Response {
    text_response("text/plain; version=0.0.4; charset=utf-8", app.metrics_of(peer.is_some()).await.into_bytes())
}

async fn ready(State(app): Held) -> Answered<Response> {
    match app.unready() {
        None => Ok(json_response(&json!({ "ready": true }))),
        Some(why) => Err(Failure::new(Kind::Unavailable, why)),
    }
}

async fn server_metadata() -> Response {
    json_response(&json!({ "name": "talweg", "version": env!("CARGO_PKG_VERSION"), "extensions": EXTENSIONS }))
}

fn selector(names: &BTreeMap<String, String>) -> Answered<Selector> {
    match names.get("label") {
        Some(label) => Ok(Selector::Label(label.clone())),
        None => Selector::parse(names.get("version").map(String::as_str)),
    }
}

async fn model_metadata(State(app): Held, Path(names): Names) -> Answered<Response> {
    let served = app.find(&names["name"], &selector(&names)?).await?;
    let (versions, _) = app.repository.versions(&served.name);
    Ok(json_response(&rest::metadata(&served, &versions)))
}

async fn model_ready(State(app): Held, Path(names): Names) -> Answered<Response> {
    app.repository.find(&names["name"], &selector(&names)?)?;
    ready(State(app)).await
}

async fn config(State(app): Held, Path(names): Names) -> Answered<Response> {
    Ok(json_response(&rest::config(&*app.find(&names["name"], &selector(&names)?).await?)))
}

/// Triton's statistics, with the histograms that the page draws.
async fn stats(State(app): Held, peer: Peer, Path(names): Names) -> Answered<Response> {
    let name = names.get("name");
    let of = |s: &crate::served::Served| {
        let t = s.stats.totals();
        let duration = |count: u64, us: u64| json!({ "count": count, "ns": us * 1000 });
        json!({
            "name": s.name, "version": s.version.to_string(), "last_inference": 0,
            "inference_count": t.rows, "execution_count": t.executions,
            "inference_stats": {
                "success": duration(t.success, t.request_us), "fail": duration(t.failures, 0),
                "queue": duration(t.success, t.queue_us), "compute_input": duration(t.success, t.input_us),
                "compute_infer": duration(t.success, t.infer_us), "compute_output": duration(t.success, t.output_us),
                "cache_hit": duration(t.cache_hits, 0), "cache_miss": duration(t.cache_misses, 0),
            },
            "batch_stats": [],
            "pending": s.pending(), "latency_us": s.stats.latency.buckets(), "batch_size": s.stats.sizes.buckets(),
        })
    };
    let mut all = json!({ "model_stats": app.repository.ready().iter().map(|s| of(s)).collect::<Vec<_>>() });
    if peer.is_none() {
        app.add_stats_of_peers(&mut all).await;
    }
    if let (Some(name), Some(rows)) = (name, all["model_stats"].as_array_mut()) {
        rows.retain(|r| r["name"] == **name);
        if rows.is_empty() {
            return Err(Failure::not_found(format!("there is no model {name:?}")));
        }
    }
    Ok(json_response(&all))
}

async fn index(State(app): Held) -> Response {
    json_response(&json!(app.repository.index()))
}

async fn load(State(app): Held, peer: Peer, Path(names): Names) -> Answered<Response> {
    app.load(&names["name"], peer.is_some()).await?;
    Ok(json_response(&json!({})))
}

async fn unload(State(app): Held, peer: Peer, Path(names): Names) -> Answered<Response> {
    app.unload(&names["name"], peer.is_some()).await?;
    Ok(json_response(&json!({})))
}

/// The body, unpacked, within the limit.
async fn read_body(app: &App, request: Request) -> Answered<(HeaderMap, Bytes)> {
    let limit = app.options.body_max;
    let too_large = || Failure::new(Kind::TooLarge, format!("the body is larger than {limit} bytes"));
    let (head, body) = request.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|l| l > limit) {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(app.options.request_timeout, Limited::new(body, limit).collect()).await;
    let collected = collected.map_err(|_| Failure::new(Kind::SlowBody, "the body did not arrive in time"))?;
    let bytes = collected
        .map_err(|e| if e.is::<LengthLimitError>() { too_large() } else { Failure::invalid("the body broke off") });
    let bytes = bytes?.to_bytes();
    let unpack = |reader: &mut dyn Read| {
        let mut out = Vec::new();
        let read = reader.take(limit as u64 + 1).read_to_end(&mut out);
        read.map_err(|_| Failure::invalid("the body is not packed as its header says"))?;
        if out.len() > limit { Err(too_large()) } else { Ok(Bytes::from(out)) }
    };
    let body = match head.headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => bytes,
        Some(b"gzip") => unpack(&mut GzDecoder::new(&bytes[..]))?,
        Some(b"deflate") => unpack(&mut ZlibDecoder::new(&bytes[..]))?,
        Some(_) => return Err(Failure::invalid("Content-Encoding must be gzip or deflate")),
    };
    Ok((head.headers, body))
}

/// Packs an answer as the client asks.
fn packed(asked: &HeaderMap, mut response: Response, body: Vec<u8>) -> Response {
    let accepts = asked.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
    let has = |name: &str| accepts.split(',').any(|e| e.trim().split(';').next() == Some(name));
    let (name, body) = if body.len() < COMPRESS_MIN {
        (None, Ok(body))
    } else if has("gzip") {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        (Some("gzip"), packer.write_all(&body).and_then(|()| packer.finish()))
    } else if has("deflate") {
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::fast());
        (Some("deflate"), packer.write_all(&body).and_then(|()| packer.finish()))
    } else {
        (None, Ok(body))
    };
    if let Some(name) = name {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    match body {
        Ok(body) => *response.body_mut() = Body::from(body),
        Err(e) => return Failure::new(Kind::Internal, e.to_string()).into_response(),
    }
    response
}

async fn infer(State(app): Held, Path(names): Names, request: Request) -> Answered<Response> {
    let served = app.find(&names["name"], &selector(&names)?).await?;
    let (headers, body) = read_body(&app, request).await?;
    let json_length = match headers.get(JSON_LENGTH) {
        None => None,
        Some(v) => {
            let bad = || Failure::invalid("Inference-Header-Content-Length is not a number");
            Some(v.to_str().ok().and_then(|t| t.parse().ok()).ok_or_else(bad)?)
        }
    };
    let (query, wanted) = rest::decode(&served, &body, json_length)?;
    drop(body);
    let answer = app.infer(&served, query).await?;
    let encoded = rest::encode(&served, &answer, &wanted)?;
    let kind = if encoded.json_length.is_some() { "application/octet-stream" } else { "application/json" };
    let mut response = text_response(kind, Vec::new());
    if let Some(length) = encoded.json_length {
        response.headers_mut().insert(JSON_LENGTH, HeaderValue::from(length));
    }
    Ok(packed(&headers, response, encoded.body))
}

/// TensorFlow Serving's `POST /v1/models/NAME[/versions/V|/labels/L]:predict`.
async fn predict(State(app): Held, Path(mut names): Names, request: Request) -> Answered<Response> {
    let last = ["label", "version", "name"].into_iter().find(|n| names.contains_key(*n)).unwrap_or("name");
    let text = names[last].clone();
    let (rest_of, verb) =
        text.rsplit_once(':').ok_or_else(|| Failure::not_found("a verb is needed, such as :predict"))?;
    if verb != "predict" {
        return Err(Failure::not_found(format!("the verb {verb:?} is not supported, only :predict")));
    }
    names.insert(last.into(), rest_of.into());
    let served = app.find(&names["name"], &selector(&names)?).await?;
    let (headers, body) = read_body(&app, request).await?;
    let (query, is_row) = rest::decode_predict(&served, &body)?;
    let answer = app.infer(&served, query).await?;
    let text = rest::encode_predict(&served, &answer, is_row)?;
    Ok(packed(&headers, text_response("application/json", Vec::new()), text.into_bytes()))
}

/// TensorFlow Serving's `GET /v1/models/NAME`.
async fn tensorflow_status(State(app): Held, Path(names): Names) -> Answered<Response> {
    let rows: Vec<Value> = app
        .repository
        .index()
        .into_iter()
        .filter(|r| r.name == names["name"] && names.get("version").is_none_or(|v| *v == r.version))
        .map(|r| {
            let state = if r.state == "READY" { "AVAILABLE" } else { "END" };
            json!({ "version": r.version, "state": state, "status": { "error_code": "OK", "error_message": r.reason } })
        })
        .collect();
    if rows.is_empty() {
        return Err(Failure::not_found(format!("there is no model {:?}", names["name"])));
    }
    Ok(json_response(&json!({ "model_version_status": rows })))
}

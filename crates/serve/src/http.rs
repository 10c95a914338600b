//! Routes of the server: health, the Open Inference Protocol, TensorFlow Serving's predict, metrics, the page.

use crate::app::App;
use crate::failure::{Answered, Failure, Kind};
use crate::input::Pieces;
use crate::packing::{too_large, unpack};
use crate::peers::FromPeer;
use crate::repository::Selector;
use crate::served::Served;
use crate::ticket::Ticket;
use crate::wire::Whole;
use crate::{grpc, guard, openapi, packing, rest};
use axum::body::{Body, HttpBody};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Extensions of the protocol that the server knows.
const EXTENSIONS: [&str; 5] =
    ["binary_tensor_data", "model_repository", "model_configuration", "statistics", "schedule_policy"];

/// Extensions of the protocol that this server knows.
pub(crate) fn extensions(app: &App) -> Vec<&'static str> {
    EXTENSIONS.into_iter().chain(app.regions.is_on().then_some("system_shared_memory")).collect()
}
pub(crate) const JSON_LENGTH: &str = "inference-header-content-length";

/// Bytes that are read of a request that was refused, and for how long.
pub(crate) const DISCARD_MAX: usize = 4 << 20;
pub(crate) const DISCARD_TIMEOUT: Duration = Duration::from_millis(100);

type Held = State<Arc<App>>;
type Peer = Option<Extension<FromPeer>>;
type Names = Path<BTreeMap<String, String>>;

/// All routes, behind keys, counts and the access log.
pub fn router(app: Arc<App>) -> Router {
    routes().layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard)).with_state(app)
}

/// Routes for other processes of the same server, which clients do not reach.
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
        .route("/v2/systemsharedmemory/status", get(regions))
        .route("/v2/systemsharedmemory/region/{name}/status", get(regions))
        .route("/v2/systemsharedmemory/region/{name}/register", post(register))
        .route("/v2/systemsharedmemory/region/{name}/unregister", post(unregister))
        .route("/v2/systemsharedmemory/unregister", post(unregister))
        // Clients ask for none to be left before they begin.
        .route("/v2/cudasharedmemory/status", get(|| async { json_response(&json!([])) }))
        .route("/v2/cudasharedmemory/unregister", post(|| async { json_response(&json!({})) }))
        .route("/v2/cudasharedmemory/region/{name}/register", post(register_cuda))
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
    router.fallback(no_path).method_not_allowed_fallback(not_allowed)
}

async fn no_path(method: Method, uri: Uri) -> Response {
    if method == Method::OPTIONS && uri.path() == "*" {
        return (StatusCode::NO_CONTENT, [(header::ALLOW, "GET,HEAD,POST,OPTIONS")]).into_response();
    }
    Failure::not_found("there is no such path").into_response()
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

async fn server_metadata(State(app): Held) -> Response {
    json_response(&json!({ "name": "talweg", "version": env!("CARGO_PKG_VERSION"), "extensions": extensions(&app) }))
}

/// Triton's `GET /v2/systemsharedmemory[/region/NAME]/status`.
async fn regions(State(app): Held, Path(names): Names) -> Answered<Response> {
    let found = app.regions.status(names.get("name").map(String::as_str))?;
    Ok(json_response(&found.iter().map(|region| region.json()).collect()))
}

/// Triton's `POST /v2/systemsharedmemory/region/NAME/register`.
async fn register(State(app): Held, Path(names): Names, request: Request) -> Answered<Response> {
    #[derive(serde::Deserialize)]
    struct Asked {
        key: String,
        offset: Option<Whole<u64>>,
        byte_size: Whole<u64>,
    }
    let (head, body) = request.into_parts();
    let (mut body, _) = read_body(&app, &head.headers, body, None).await?;
    let body = body.take_joined(body.len()).unwrap_or_default();
    let bad = |e| Failure::invalid(format!("a region needs a key and a byte_size: {e}"));
    let Asked { key, offset, byte_size } = serde_json::from_slice(&body).map_err(bad)?;
    app.regions.register(&names["name"], &key, offset.map_or(0, |offset| offset.0), byte_size.0)?;
    Ok(json_response(&json!({})))
}

/// Triton's `POST /v2/systemsharedmemory[/region/NAME]/unregister`.
async fn unregister(State(app): Held, Path(names): Names) -> Response {
    app.regions.unregister(names.get("name").map(String::as_str));
    json_response(&json!({}))
}

async fn register_cuda() -> Failure {
    Failure::invalid("CUDA shared memory is not supported: register system shared memory")
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

fn number(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<usize> {
    headers.get(name).and_then(|v| v.to_str().ok()?.parse().ok())
}

/// What a client sends, with its room in the queue. One that takes longer than the latency target loses its room, which
/// is then taken again.
pub(crate) async fn patiently<T>(
    app: &App,
    mut ticket: Option<Ticket>,
    read: impl Future<Output = Answered<T>>,
) -> Answered<(T, Option<Ticket>)> {
    let mut read = std::pin::pin!(read);
    let soon = Duration::from_micros(app.options.policy.latency_us).min(app.options.request_timeout);
    let mut done = tokio::time::timeout(soon, &mut read).await;
    if done.is_err() {
        ticket = None;
        done = tokio::time::timeout(app.options.request_timeout - soon, read).await;
    }
    Ok((done.map_err(|_| Failure::new(Kind::SlowBody, "the body did not arrive in time"))??, ticket))
}

/// The body, unpacked, within the limit. It is not joined: tensors are copied from where they were read to.
async fn read_body(
    app: &App,
    headers: &HeaderMap,
    mut body: Body,
    ticket: Option<Ticket>,
) -> Answered<(Pieces, Option<Ticket>)> {
    let limit = app.options.body_max;
    if number(headers, header::CONTENT_LENGTH).is_some_and(|l| l > limit) {
        return Err(too_large(limit));
    }
    let read = async {
        let mut pieces = Pieces::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Failure::invalid("the body broke off"))?;
            if let Ok(data) = frame.into_data() {
                pieces.push(data);
            }
            if pieces.len() > limit {
                return Err(too_large(limit));
            }
        }
        Ok(pieces)
    };
    let (mut pieces, ticket) = patiently(app, ticket, read).await?;
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => {}
        Some(name) => pieces = Bytes::from(unpack(name, pieces.reader(), limit)?).into(),
    }
    Ok((pieces, ticket))
}

/// Reads what a client sends along with a request that is refused, so that its connection can be used again: for a short
/// time, and not of a client that waits to be asked for it.
async fn discard(headers: &HeaderMap, mut body: Body) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let read = async {
        let mut len = 0;
        while let Some(Ok(frame)) = body.frame().await {
            len += frame.data_ref().map_or(0, Bytes::len);
            if len > DISCARD_MAX {
                return;
            }
        }
    };
    // Too slow, and the connection is closed.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, read).await;
}

/// Room for a request before its body is read. `json` is what its body has besides the inputs.
async fn reserve(
    app: &App,
    served: &Arc<Served>,
    request: Request,
    json: Option<usize>,
) -> Answered<(Option<Ticket>, HeaderMap, Body)> {
    let (head, body) = request.into_parts();
    let length = number(&head.headers, header::CONTENT_LENGTH).unwrap_or(0).min(app.options.body_max);
    // Numbers as text say little about how many there are.
    let bytes = json.map_or(0, |json| length.saturating_sub(json));
    match app.reserve(served, bytes, None) {
        Ok(ticket) => Ok((ticket, head.headers, body)),
        Err(failure) => {
            discard(&head.headers, body).await;
            Err(failure)
        }
    }
}

/// A body of several pieces, which are sent as they lie.
struct Parts(VecDeque<Bytes>);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// Packs an answer as the client asks.
fn packed(asked: &HeaderMap, mut response: Response, body: Vec<u8>, tail: Vec<Bytes>) -> Response {
    let accepts = asked.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
    let len = body.len() + tail.iter().map(Bytes::len).sum::<usize>();
    let body = match packing::chosen(accepts, len) {
        None if tail.is_empty() => Body::from(body),
        None => Body::new(Parts(std::iter::once(Bytes::from(body)).chain(tail).collect())),
        Some(name) => {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
            match packing::pack(name, &body, &tail) {
                Ok(body) => Body::from(body),
                Err(e) => return Failure::new(Kind::Internal, e.to_string()).into_response(),
            }
        }
    };
    *response.body_mut() = body;
    response
}

async fn infer(State(app): Held, Path(names): Names, request: Request) -> Answered<Response> {
    let served = app.find(&names["name"], &selector(&names)?).await?;
    let json_length = number(request.headers(), JSON_LENGTH);
    if json_length.is_none() && request.headers().contains_key(JSON_LENGTH) {
        return Err(Failure::invalid("Inference-Header-Content-Length is not a number"));
    }
    let (ticket, headers, body) = reserve(&app, &served, request, json_length).await?;
    let (body, ticket) = read_body(&app, &headers, body, ticket).await?;
    let (query, wanted) = rest::decode(&served, body, json_length, &app.regions)?;
    let (answer, _counted) = app.infer(&served, query, ticket, None).await?;
    let encoded = rest::encode(&served, &answer, &wanted)?;
    let kind = if encoded.json_length.is_some() { "application/octet-stream" } else { "application/json" };
    let mut response = text_response(kind, Vec::new());
    if let Some(length) = encoded.json_length {
        response.headers_mut().insert(JSON_LENGTH, HeaderValue::from(length));
    }
    Ok(packed(&headers, response, encoded.body, encoded.tail))
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
    let (ticket, headers, body) = reserve(&app, &served, request, None).await?;
    let (mut body, ticket) = read_body(&app, &headers, body, ticket).await?;
    let body = body.take_joined(body.len()).unwrap_or_default();
    let (query, is_row) = rest::decode_predict(&served, &body)?;
    let (answer, _counted) = app.infer(&served, query, ticket, None).await?;
    let text = rest::encode_predict(&served, &answer, is_row)?;
    Ok(packed(&headers, text_response("application/json", Vec::new()), text.into_bytes(), Vec::new()))
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

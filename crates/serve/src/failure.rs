//! Why a request has no answer, and how each protocol says so.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use ir::ErrorKind;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is not what the model takes.
    Invalid,
    /// There is no such model, version or path.
    NotFound,
    /// No key, or a wrong one.
    Unauthorized,
    /// The body is larger than allowed.
    TooLarge,
    /// The body did not arrive in time.
    SlowBody,
    /// The queue is full or the key's quota is used up: the same server may answer later.
    Overloaded,
    /// Loading, draining or failed: another server may answer now.
    Unavailable,
    /// The deadline passed.
    Deadline,
    /// A failure of the server or the model.
    Internal,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub kind: Kind,
    /// For people.
    pub message: String,
    /// Seconds after which another try may succeed.
    pub retry_seconds: Option<u64>,
}

/// An answer or why there is none.
pub type Answered<T> = Result<T, Failure>;

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Failure {
        let retry_seconds = matches!(kind, Kind::Overloaded | Kind::Unavailable).then_some(1);
        Failure { kind, message: message.into(), retry_seconds }
    }
    /// A request that is not what the model takes.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Invalid, message)
    }
    /// Something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Failure {
        Failure::new(Kind::NotFound, message)
    }
    /// The status of HTTP.
    pub fn status(&self) -> StatusCode {
        match self.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Kind::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Deadline => StatusCode::GATEWAY_TIMEOUT,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
    /// The label of `nv_inference_request_failure`.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            Kind::Overloaded | Kind::Unavailable => "REJECTED",
            Kind::Deadline => "CANCELED",
            Kind::Internal => "BACKEND",
            _ => "OTHER",
        }
    }
}

impl Failure {
    /// The body of the answer that says so.
    pub(crate) fn json(&self) -> String {
        serde_json::json!({ "error": self.message }).to_string()
    }
}

impl From<ir::Error> for Failure {
    fn from(e: ir::Error) -> Failure {
        let is_callers = matches!(
            e.kind,
            ErrorKind::Shape | ErrorKind::DType | ErrorKind::Value | ErrorKind::Index | ErrorKind::Numerics
        );
        // Lines of the program that made the model mean nothing to a client.
        Failure::new(if is_callers { Kind::Invalid } else { Kind::Internal }, e.message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.json()));
        *response.status_mut() = self.status();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == Kind::Unauthorized {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Failure> for tonic::Status {
    fn from(f: Failure) -> tonic::Status {
        let code = match f.kind {
            Kind::Invalid => tonic::Code::InvalidArgument,
            Kind::NotFound => tonic::Code::NotFound,
            Kind::Unauthorized => tonic::Code::Unauthenticated,
            Kind::TooLarge | Kind::Overloaded => tonic::Code::ResourceExhausted,
            Kind::Unavailable => tonic::Code::Unavailable,
            Kind::Deadline | Kind::SlowBody => tonic::Code::DeadlineExceeded,
            Kind::Internal => tonic::Code::Internal,
        };
        tonic::Status::new(code, f.message)
    }
}

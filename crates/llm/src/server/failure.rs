//! Failures in OpenAI's form.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use std::borrow::Cow;

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub struct Failure {
    pub status: StatusCode,
    pub message: String,
    pub param: Option<Cow<'static, str>>,
    pub code: Option<&'static str>,
}

impl Failure {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into(), param: None, code: None }
    }
    /// A request that cannot be answered as it is.
    pub fn invalid(param: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Failure {
        Failure { param: Some(param.into()), ..Failure::new(StatusCode::BAD_REQUEST, message) }
    }
    /// Too many requests.
    pub fn overloaded() -> Failure {
        let e = Failure::new(StatusCode::TOO_MANY_REQUESTS, "too many requests wait already");
        Failure { code: Some("rate_limit_exceeded"), ..e }
    }
    pub fn json(&self) -> Json {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            s if s.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.json().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

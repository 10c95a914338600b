//! OpenAI's interface over HTTP: chat, completions, embeddings, models; streams as server-sent events.

mod about;
mod answer;
mod embed;
mod failure;
mod rank;
mod request;
mod responses;
mod routes;
mod stream;

pub use routes::{Api, router};
pub use serve::Keys;
pub use serve::listen::{serve_routes, tls};

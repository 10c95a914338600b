//! gRPC and TLS, spoken by hand: frames of HTTP/2 with the messages of the protocol, a handshake against a test's own
//! authority.

mod harness;

use bytes::Bytes;
use harness::{Running, random, repository};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use model::Model;
use prost::Message;
use std::sync::Arc;
use talweg_serve::listen;
use talweg_serve::proto::*;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// One call on a connection of its own: the status of gRPC, its message, and the answer.
async fn call<A: Message + Default>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: &str,
    headers: &[(&str, &str)],
    message: &impl Message,
) -> (String, String, A) {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let encoded = message.encode_to_vec();
    let body = [&[0], &(encoded.len() as u32).to_be_bytes()[..], &encoded].concat();
    let mut request = Request::post(format!("http://x/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let text = |name: &str| {
        let value = trailers.get(name).or_else(|| head.headers.get(name));
        value.map_or(String::new(), |v| v.to_str().unwrap().to_string())
    };
    let status = text("grpc-status");
    let bytes = collected.to_bytes();
    let answer = if bytes.len() >= 5 { A::decode(&bytes[5..]).unwrap() } else { A::default() };
    (status, text("grpc-message"), answer)
}

fn block<F: Future>(f: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f)
}

fn infer_request(name: &str, rows: i64, raw: Vec<Bytes>, contents: Option<InferTensorContents>) -> ModelInferRequest {
    let tensor = InferTensor {
        name: "x".into(),
        datatype: "FP32".into(),
        shape: vec![rows, 4],
        contents,
        ..InferTensor::default()
    };
    ModelInferRequest {
        model_name: name.into(),
        id: "7".into(),
        inputs: vec![tensor],
        raw_input_contents: raw,
        ..ModelInferRequest::default()
    }
}

#[test]
fn grpc_answers_are_the_models_own() {
    let (dir, options) = repository();
    let server = Running::start(options);
    let model = Model::load(dir.path().join("mlp/1")).unwrap();
    let x = random(&[1, 4], 3);
    let want = model.run(std::slice::from_ref(&x)).unwrap();
    block(async {
        let connect = || async { TcpStream::connect(server.address).await.unwrap() };
        let (status, _, ready): (_, _, ReadyResponse) = call(connect().await, "ServerReady", &[], &Empty {}).await;
        assert_eq!((status.as_str(), ready.ready), ("0", true));
        let named = ModelRequest { name: "mlp".into(), version: String::new() };
        let (_, _, metadata): (_, _, ModelMetadataResponse) = call(connect().await, "ModelMetadata", &[], &named).await;
        assert_eq!((metadata.versions, metadata.inputs[0].shape.clone()), (vec!["1".to_string()], vec![-1, 4]));
        let contents = InferTensorContents { fp32s: x.to_vec().unwrap(), ..InferTensorContents::default() };
        let raw = vec![Bytes::copy_from_slice(x.bytes())];
        for request in [infer_request("mlp", 1, raw.clone(), None), infer_request("mlp", 1, vec![], Some(contents))] {
            let (status, message, answer): (_, _, ModelInferResponse) =
                call(connect().await, "ModelInfer", &[("grpc-timeout", "30S")], &request).await;
            assert_eq!((status.as_str(), message.as_str(), answer.id.as_str()), ("0", "", "7"));
            assert_eq!(answer.outputs[0].shape, [1, 8]);
            assert_eq!(answer.raw_output_contents[0], want[0].bytes());
        }
        let ask = |request: ModelInferRequest| async move {
            let (status, message, _): (_, _, ModelInferResponse) =
                call(connect().await, "ModelInfer", &[], &request).await;
            (status, message)
        };
        assert_eq!(ask(infer_request("other", 1, raw.clone(), None)).await.0, "5", "not found");
        let (status, message) = ask(infer_request("mlp", 2, raw, None)).await;
        assert!(status == "3" && message.contains("bytes"), "{status} {message}");
        let (status, _, index): (_, _, RepositoryIndexResponse) =
            call(connect().await, "RepositoryIndex", &[], &RepositoryIndexRequest::default()).await;
        assert_eq!((status.as_str(), index.models[0].state.as_str()), ("0", "READY"));
        let (status, _, _): (_, _, Empty) = call(connect().await, "NoSuchMethod", &[], &Empty {}).await;
        assert_eq!(status, "12");
    });
}

#[test]
fn tls_is_spoken_with_a_certificate() {
    let (dir, options) = repository();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let (certificate, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = Running::start_with(options, Some(listen::tls(&certificate, &key).unwrap()));
    let der: CertificateDer = made.cert.der().clone();
    block(async {
        let mut roots = RootCertStore::empty();
        roots.add(der).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (status, _, ready): (_, _, ReadyResponse) = call(stream, "ServerReady", &[], &Empty {}).await;
        assert_eq!((status.as_str(), ready.ready), ("0", true));
    });
    assert!(listen::tls(&key, &certificate).is_err());
}

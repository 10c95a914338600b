//! Sockets: accepting, TLS, time limits, and draining.

use crate::app::App;
use crate::attended::Attended;
use crate::connection::{Connection, End};
use crate::http::{peer_router, router};
use crate::stamped::{Arrival, Plain, Stamped};
use crate::write_timeout::WriteTimeout;
use axum::Router;
use bytes::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// How long a client may take for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take for the head of a request, from the answer before on. Longer than load balancers keep idle
/// connections (60 s), or they would send a request into one that is being closed.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a client may read nothing of an answer of other routes than an app's.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// TLS from a certificate chain and a key, both PEM.
pub fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|e| format!("{}: {e}", certificate.display()))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|e| format!("{}: {e}", certificate.display()))?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|e| format!("{}: {e}", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key_der);
    let mut config = config.map_err(|e| e.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    listeners: Vec<TcpListener>,
    tls: Option<TlsAcceptor>,
    unix: Option<(UnixListener, SocketFile)>,
}

/// The file of a Unix domain socket, removed when the server ends.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If it stays, the next server of this path finds that no server listens there.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Connections that wait to be accepted at most. Further ones are not answered, and clients try again after a second.
const BACKLOG: u32 = 4096;

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that starts again finds its port free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A socket at this path, in place of one that a server has left that is gone.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let bound = UnixListener::bind(path);
    let is_taken = bound.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AddrInUse);
    let is_left = || {
        let refused = std::os::unix::net::UnixStream::connect(path).map_err(|e| e.kind());
        matches!(refused, Err(io::ErrorKind::ConnectionRefused))
    };
    if is_taken && is_left() {
        std::fs::remove_file(path)?;
        return UnixListener::bind(path);
    }
    bound
}

impl Server {
    /// Binds the addresses. REST and gRPC are spoken on each.
    pub async fn bind(app: Arc<App>, addresses: &[SocketAddr], tls: Option<TlsAcceptor>) -> io::Result<Server> {
        let mut listeners = Vec::new();
        for address in addresses {
            let bound = bind(*address);
            listeners.push(bound.map_err(|e| io::Error::new(e.kind(), format!("{address}: {e}")))?);
        }
        Ok(Server { app, listeners, tls, unix: None })
    }
    /// Listens at a Unix domain socket, too, without TLS: for clients of the same machine, as far as the permissions of the
    /// file allow. The file is removed in the end.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        let bound = bind_unix(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        self.unix = Some((bound, SocketFile(path.into())));
        Ok(())
    }
    /// Serves sockets that another process has bound.
    pub fn adopt(app: Arc<App>, sockets: Vec<std::net::TcpListener>, tls: Option<TlsAcceptor>) -> io::Result<Server> {
        let adopt = |socket: std::net::TcpListener| {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        };
        let listeners = sockets.into_iter().map(adopt).collect::<io::Result<_>>()?;
        Ok(Server { app, listeners, tls, unix: None })
    }
    /// The addresses that were bound, with the ports that the system chose.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Serves until `ended` completes, then drains: unready at once, no new connections, open requests are answered
    /// within the time that the options allow. Returns whether all of them were.
    pub async fn run(self, ended: impl Future<Output = ()>) -> bool {
        let Server { app, listeners, tls, unix } = self;
        let routes = Routes { router: router(app.clone()), app: Some(app.clone()) };
        let (stop, stopped) = watch::channel(false);
        let mut accepting = tokio::task::JoinSet::new();
        for listener in listeners {
            let listener = Listener::Tcp(listener);
            accepting.spawn(accept(listener, routes.clone(), tls.clone(), app.room.clone(), stopped.clone()));
        }
        let _file = unix.map(|(listener, file)| {
            let listener = Listener::Unix(listener);
            accepting.spawn(accept(listener, routes.clone(), None, app.room.clone(), stopped.clone()));
            file
        });
        let caretaker = tokio::spawn(caretake(app.clone()));
        let peers = app.options.peers.as_ref().map(|p| tokio::spawn(accept_peers(p.socket(p.own), app.clone())));
        ended.await;
        app.start_draining();
        let _ = stop.send(true);
        let drained = async { while accepting.join_next().await.is_some() {} };
        let is_drained = tokio::time::timeout(app.options.drain, drained).await.is_ok();
        caretaker.abort();
        peers.inspect(|p| p.abort());
        is_drained
    }
}

/// Serves the other processes of the same server. Its socket shows that this process is ready.
async fn accept_peers(path: std::path::PathBuf, app: Arc<App>) {
    // A process of this number that was killed has left its socket.
    let _ = std::fs::remove_file(&path);
    let Ok(listener) = UnixListener::bind(&path) else { return };
    let router = peer_router(app);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A peer that goes away is no failure of this process.
            let _ = connection.await;
        });
    }
}

/// Looks for new versions and idle models.
async fn caretake(app: Arc<App>) {
    let every = app.options.poll.unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(50));
    let is_scanning = app.options.poll.is_some();
    loop {
        tokio::time::sleep(every).await;
        let app = app.clone();
        // A task that fails is tried again.
        let _ = tokio::task::spawn_blocking(move || app.repository.poll(is_scanning)).await;
    }
}

/// HTTP/1 and HTTP/2 with limits.
fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(1 << 20);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1024).keep_alive_interval(Duration::from_secs(60));
    builder
}

/// What is served: routes, and with an app its inference without them.
#[derive(Clone)]
struct Routes {
    router: Router,
    app: Option<Arc<App>>,
}

/// Where clients connect.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A client that has connected.
enum Stream {
    Tcp(Stamped),
    Unix(UnixStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(Stamped::new(stream)))
            }
            Listener::Unix(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

async fn accept(
    listener: Listener,
    routes: Routes,
    tls: Option<TlsAcceptor>,
    room: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let builder = Arc::new(builder());
    loop {
        let permit = tokio::select! {
            permit = room.clone().acquire_owned() => permit,
            _ = stopped.changed() => break,
        };
        let Ok(permit) = permit else { break };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => stream,
                // Too many open files: others must close first.
                Err(_) => { tokio::time::sleep(Duration::from_millis(10)).await; continue }
            },
            _ = stopped.changed() => break,
        };
        let (routes, builder, watcher, tls) = (routes.clone(), builder.clone(), graceful.watcher(), tls.clone());
        let stopped = stopped.clone();
        tokio::spawn(async move {
            let _permit = permit;
            match (stream, tls) {
                (Stream::Unix(stream), _) => connection(Plain(stream), routes, &builder, watcher, stopped).await,
                (Stream::Tcp(stream), None) => connection(stream, routes, &builder, watcher, stopped).await,
                (Stream::Tcp(stream), Some(tls)) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                        connection(stream, routes, &builder, watcher, stopped).await;
                    }
                }
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// Serves one connection that is open already, such as a pipe, until it ends.
pub async fn serve_stream<S>(app: Arc<App>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (_stop, stopped) = watch::channel(false);
    let graceful = GracefulShutdown::new();
    let routes = Routes { router: router(app.clone()), app: Some(app) };
    connection(Plain(stream), routes, &builder(), graceful.watcher(), stopped).await;
}

async fn connection<S>(
    stream: S,
    routes: Routes,
    builder: &Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
    stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Arrival + Unpin + Send + 'static,
{
    let limit = routes.app.as_ref().map_or(WRITE_TIMEOUT, |app| app.options.write_timeout);
    let mut stream = WriteTimeout::new(stream, limit);
    let before = match &routes.app {
        None => Bytes::new(),
        Some(app) => match Connection::new(&mut stream, app, &routes.router, stopped).run().await {
            End::Closed => return,
            End::Other(before) => before,
        },
    };
    let service = TowerToHyperService::new(routes.router);
    let serve = |stream| watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
    // A client that goes away is no failure of the server.
    let _ = Attended::new(before, stream).serve(serve).await;
}

/// Serves these routes at a listener until `ended` completes, then drains: no new connections, open requests are
/// answered within `drain`. Returns whether all of them were.
pub async fn serve_routes(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    connections_max: usize,
    drain: Duration,
    ended: impl Future<Output = ()>,
) -> bool {
    let (stop, stopped) = watch::channel(false);
    let room = Arc::new(Semaphore::new(connections_max));
    let routes = Routes { router, app: None };
    let accepting = tokio::spawn(accept(Listener::Tcp(listener), routes, tls, room, stopped));
    ended.await;
    let _ = stop.send(true);
    tokio::time::timeout(drain, accepting).await.is_ok()
}

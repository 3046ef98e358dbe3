//! Outgoing HTTP requests of guests. The policy must allow the host and port, the name is resolved here, and the
//! connection uses the address that was checked. HTTP/1.1, with TLS for `https`. The guest follows redirects: each is a
//! new request.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use wasmtime_wasi::runtime::spawn;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::capabilities::address::address_scope;
use crate::capabilities::denial::{Denials, Kind};
use crate::capabilities::descriptors::{self, Connections};
use crate::capabilities::network_policy::NetworkPolicy;

/// Resolves a name to addresses.
pub type Resolver =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync>;

type Sending = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Answer = Result<(Response<WasiBody>, Sending), Error>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Checks and sends a guest's requests.
pub struct OutgoingHttp {
    pub policy: Arc<NetworkPolicy>,
    pub denials: Arc<Denials>,
    pub resolver: Resolver,
    pub connections: Connections,
}

/// The operating system's resolver.
pub fn resolver() -> Resolver {
    Arc::new(|name| {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.map(|found| found.ip()).collect())
        })
    })
}

impl WasiHttpHooks for OutgoingHttp {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        let Some((host, port)) = target(request.uri()) else {
            return Box::new(async { Err(Error::HttpRequestUriInvalid) });
        };
        let Some(bound) = self.policy.bound(&host, port) else {
            self.denials.note(Kind::Http, || format!("{host}:{port}"));
            return Box::new(async { Err(Error::HttpRequestDenied) });
        };
        if !descriptors::may_connect(&self.connections) {
            self.denials.note(Kind::Descriptor, || format!("{host}:{port}"));
            return Box::new(async { Err(Error::ConnectionLimitReached) });
        }
        let (denials, resolver) = (self.denials.clone(), self.resolver.clone());
        let connection = self.connections.clone();
        Box::new(async move {
            let limit = options.and_then(|options| options.connect_timeout).unwrap_or(CONNECT_TIMEOUT);
            let found =
                timeout(limit, addresses(&resolver, &host)).await.map_err(|_| Error::DnsTimeout)??;
            let open: Vec<IpAddr> =
                found.iter().copied().filter(|address| address_scope(*address) <= bound).collect();
            if let (true, Some(first)) = (open.is_empty(), found.first()) {
                denials.note(Kind::Http, || format!("{host}:{port} at {first}"));
                return Err(Error::DestinationIpProhibited);
            }
            let stream =
                timeout(limit, connect(&open, port)).await.map_err(|_| Error::ConnectionTimeout)??;
            send(request, &host, (stream, connection), options, limit).await
        })
    }
}

/// The host without brackets, and the port.
fn target(uri: &Uri) -> Option<(String, u16)> {
    let host = uri.host().filter(|host| !host.is_empty())?;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    Some((bare.to_owned(), uri.port_u16().unwrap_or(usual)))
}

async fn addresses(resolver: &Resolver, host: &str) -> Result<Vec<IpAddr>, Error> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let found = resolver(host.to_owned()).await.unwrap_or_default();
    if found.is_empty() { Err(Error::DestinationNotFound) } else { Ok(found) }
}

async fn connect(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Error> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(*address, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(Error::Connect(failed))
}

async fn send(
    request: Request<WasiBody>,
    host: &str,
    (stream, connection): (TcpStream, Connections),
    options: Option<RequestOptions>,
    limit: Duration,
) -> Answer {
    if request.uri().scheme() != Some(&Scheme::HTTPS) {
        return exchange(request, (TokioIo::new(stream), connection), options).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::HttpRequestUriInvalid)?;
    let connector = TlsConnector::from(TLS.clone());
    let secured = timeout(limit, connector.connect(name, stream)).await;
    let stream = secured.map_err(|_| Error::ConnectionTimeout)?.map_err(Error::Tls)?;
    exchange(request, (TokioIo::new(stream), connection), options).await
}

async fn exchange<S>(
    mut request: Request<WasiBody>,
    (stream, counted): (S, Connections),
    options: Option<RequestOptions>,
) -> Answer
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(stream).await?;
    let driver = spawn(async move {
        let outcome = connection.await;
        drop(counted);
        outcome
    });
    // The request line has the path alone; host and scheme are for proxies.
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    *request.uri_mut() = path.parse().map_err(|_| Error::HttpRequestUriInvalid)?;
    let limit = options.and_then(|options| options.first_byte_timeout).unwrap_or(ANSWER_TIMEOUT);
    let answer = timeout(limit, sender.send_request(request)).await;
    let answer = answer.map_err(|_| Error::ConnectionReadTimeout)??;
    let body = |body: hyper::body::Incoming| body.map_err(Error::from).boxed_unsync();
    Ok((answer.map(body), Box::new(async move { driver.await.map_err(Error::from) })))
}

/// Certificates are checked against Mozilla's built-in list of authorities.
static TLS: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.unwrap_or_else(|error| unreachable!("ring has the default versions: {error}"));
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
});

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::{BodyExt, Empty};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::capabilities::capability::Capability;

    struct Exchange {
        answer: Result<String, Error>,
        connections: usize,
        lookups: usize,
        denied: u64,
    }

    /// Requests `http://{host}:{port}/` from a server on the loopback address. `resolves` gives the result of each
    /// lookup.
    fn ask(grant: &str, host: &str, resolves: &'static [&'static str]) -> Exchange {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let connections = Arc::new(AtomicUsize::new(0));
            let server = tokio::spawn(serve(listener, connections.clone()));
            let grants = [Capability::parse(&format!("{grant}:{port}"), Path::new("/")).unwrap()];
            let (denials, lookups) = (Arc::new(Denials::default()), Arc::new(AtomicUsize::new(0)));
            let looked = lookups.clone();
            let resolver: Resolver = Arc::new(move |_| {
                let at = looked.fetch_add(1, Ordering::Relaxed).min(resolves.len() - 1);
                let found = vec![resolves[at].parse().unwrap()];
                Box::pin(async move { Ok(found) })
            });
            let policy = Arc::new(NetworkPolicy::of(&grants, true));
            let mut outgoing = OutgoingHttp {
                policy,
                denials: denials.clone(),
                resolver,
                connections: Connections::default(),
            };
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let request =
                Request::get(format!("http://{host}:{port}/")).header("host", host).body(body).unwrap();
            let answer = Pin::from(outgoing.send_request(request, None, Box::new(async { Ok(()) }))).await;
            let answer = match answer {
                Ok((response, driving)) => {
                    let driving = tokio::spawn(Pin::from(driving));
                    let body = response.into_body().collect().await.unwrap().to_bytes();
                    driving.abort();
                    Ok(String::from_utf8_lossy(&body).into_owned())
                }
                Err(error) => Err(error),
            };
            server.abort();
            let denied = denials.counts().iter().map(|(_, count)| count).sum();
            let (connections, lookups) =
                (connections.load(Ordering::Relaxed), lookups.load(Ordering::Relaxed));
            Exchange { answer, connections, lookups, denied }
        })
    }

    async fn serve(listener: TcpListener, connections: Arc<AtomicUsize>) {
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
        }
    }

    fn assert_refused(exchange: &Exchange) {
        assert!(matches!(exchange.answer, Err(Error::HttpRequestDenied | Error::DestinationIpProhibited)));
        assert_eq!((exchange.connections, exchange.denied), (0, 1));
    }

    #[test]
    fn a_request_to_a_granted_address_or_name_is_answered() {
        for (grant, host) in [
            ("network:http-outgoing:127.0.0.1", "127.0.0.1"),
            ("network:http-outgoing:inner.example", "inner.example"),
        ] {
            let exchange = ask(grant, host, &["127.0.0.1"]);
            assert_eq!(exchange.answer.unwrap(), "hi");
            assert_eq!((exchange.connections, exchange.denied), (1, 0));
        }
    }

    #[test]
    fn a_request_to_a_host_that_is_not_granted_is_refused() {
        for host in ["127.0.0.1", "localhost", "169.254.169.254", "[::ffff:127.0.0.1]", "2130706433"] {
            assert_refused(&ask("network:http-outgoing:other.example", host, &["127.0.0.1"]));
        }
    }

    #[test]
    fn a_wildcard_leads_to_no_address_of_the_machine_or_its_site() {
        for address in
            ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
        {
            let leads: &'static [&'static str] = Box::leak(Box::new([address]));
            assert_refused(&ask("network:http-outgoing:*", "rebound.example", leads));
        }
        for host in ["127.0.0.1", "[::1]", "2130706433", "0x7f.1"] {
            assert_refused(&ask("network:http-outgoing:*", host, &["127.0.0.1"]));
        }
    }

    #[test]
    fn a_name_is_looked_up_once_so_it_cannot_point_elsewhere_when_the_connection_is_made() {
        let exchange =
            ask("network:http-outgoing:inner.example", "inner.example", &["127.0.0.1", "127.0.0.9"]);
        assert_eq!(exchange.answer.unwrap(), "hi");
        assert_eq!((exchange.connections, exchange.lookups), (1, 1));
        let exchange = ask("network:http-outgoing:*.example", "inner.example", &["127.0.0.9", "127.0.0.1"]);
        assert_refused(&exchange);
        assert_eq!(exchange.lookups, 1);
    }
}

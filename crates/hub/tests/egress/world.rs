//! A small Internet: two servers, a resolver, and the proxy of one sandbox.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sandshell_hub::egress::{
    Authority, Egress, EgressConfig, Guard, Outside, Policy, Resolve, Resolving,
};
use sandshell_types::{NetworkMode, NetworkRefused, NetworkSpec, SecretSpec};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::broadcast;
use tokio_rustls::TlsAcceptor;

/// Where all servers seem to be.
pub(crate) const PUBLIC: &str = "93.184.216.34";
/// A port that is not the web's, with a server that speaks first.
pub(crate) const BANNER_PORT: u16 = 2525;
/// A port that is not the web's, with the HTTP server.
pub(crate) const OTHER_HTTP_PORT: u16 = 8080;
/// A port with the TLS server.
pub(crate) const OTHER_TLS_PORT: u16 = 8443;
/// No wait is longer; a failure then shows where.
pub(crate) const LONG: Duration = Duration::from_secs(150);

/// Answers as it is told, and notes what it was asked.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    /// Answers for each name; the last one stays.
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Vec<String>,
}

impl Script {
    /// The name has these addresses, at the first lookup, the second, and so on.
    pub(crate) fn answer(&self, name: &str, turns: &[&[&str]]) {
        let addresses = |turn: &&[&str]| turn.iter().map(|text| text.parse().unwrap()).collect();
        let answers = turns.iter().map(addresses).collect();
        let mut told = self.0.lock().unwrap();
        told.answers.insert(name.to_owned(), answers);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }
}

impl Resolve for Script {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let mut told = self.0.lock().unwrap();
        told.asked.push(name.to_owned());
        let answer = told.answers.get_mut(name).map(|turns| {
            if turns.len() > 1 {
                turns.remove(0)
            } else {
                turns[0].clone()
            }
        });
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

/// What the servers got: method, target and fields, as in the message.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) egress: Egress,
    pub(crate) names: Script,
    pub(crate) seen: Seen,
    pub(crate) refusals: broadcast::Receiver<NetworkRefused>,
    /// Certificate of the sandbox's own authority, if there is one.
    pub(crate) authority: Option<String>,
    /// Certificate that the servers outside are known by.
    pub(crate) root: String,
    outside: Arc<Outside>,
}

/// Starts the servers and the proxy with this allow list and these secrets (host, header, value).
pub(crate) async fn world(allow: &[&str], secrets: &[(&str, &str, &str)]) -> World {
    let names = Script::default();
    for name in ["ok.test", "other.test", "a.wild.test"] {
        names.answer(name, &[&[PUBLIC]]);
    }
    let seen = Seen::default();
    let (root, acceptor) = certificates(&["ok.test", "other.test"]);
    let http = serve(seen.clone(), None).await;
    let tls = serve(seen.clone(), Some(acceptor)).await;
    let banner = serve_banner().await;
    let at = |port| SocketAddr::new(PUBLIC.parse().unwrap(), port);
    let guard = Guard::with_doors(vec![
        (at(80), http),
        (at(OTHER_HTTP_PORT), http),
        (at(443), tls),
        (at(OTHER_TLS_PORT), tls),
        (at(BANNER_PORT), banner),
    ]);
    let root_der = CertificateDer::from(root.der().to_vec());
    let outside = Arc::new(Outside::with(names.clone(), guard, [root_der]).unwrap());
    let policy = policy(allow, secrets);
    let authority = policy.has_secrets().then(|| Authority::generate().unwrap());
    let certificate = authority.as_ref().map(|it| it.certificate().to_owned());
    let dir = tempfile::tempdir().unwrap();
    let config = EgressConfig {
        sandbox: "sb-test".to_owned(),
        policy,
        authority,
        outside: Arc::clone(&outside),
    };
    let egress = Egress::start(dir.path(), config).unwrap();
    World {
        refusals: egress.refusals(),
        dir,
        egress,
        names,
        seen,
        authority: certificate,
        root: root.pem(),
        outside,
    }
}

/// An empty list stands for the mode `full`.
pub(crate) fn policy(allow: &[&str], secrets: &[(&str, &str, &str)]) -> Policy {
    let network = NetworkSpec {
        mode: if allow.is_empty() {
            NetworkMode::Full
        } else {
            NetworkMode::Allow
        },
        allow: allow.iter().map(|&entry| entry.to_owned()).collect(),
    };
    let secrets: Vec<SecretSpec> = secrets
        .iter()
        .map(|(host, header, value)| SecretSpec {
            host: (*host).to_owned(),
            header: (*header).to_owned(),
            value: Some((*value).to_owned()),
        })
        .collect();
    Policy::parse(&network, &secrets).unwrap()
}

impl World {
    /// A connection that has said what it is.
    pub(crate) async fn open(&self, opening: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.dir.path().join("proxy.sock"))
            .await
            .unwrap();
        stream.write_all(opening.as_bytes()).await.unwrap();
        stream
    }

    /// Sends bytes as a client of the proxy and gives all that comes back.
    pub(crate) async fn say(&self, bytes: &str) -> String {
        let mut stream = self.open("proxy\n").await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        rest(&mut stream).await
    }

    /// A tunnel that was granted.
    pub(crate) async fn connect(&self, authority: &str) -> UnixStream {
        let mut stream = self.open("proxy\n").await;
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{authority}: {answer}");
        stream
    }

    /// The next refusal.
    pub(crate) async fn refusal(&mut self) -> NetworkRefused {
        tokio::time::timeout(LONG, self.refusals.recv())
            .await
            .expect("a refusal in time")
            .unwrap()
    }

    /// Ends the proxy and starts another one on the same socket, as a hub that was started again.
    pub(crate) async fn restart(&mut self, allow: &[&str]) {
        let config = EgressConfig {
            sandbox: "sb-test".to_owned(),
            policy: policy(allow, &[]),
            authority: None,
            outside: Arc::clone(&self.outside),
        };
        let next = Egress::start(self.dir.path(), config).unwrap();
        self.refusals = next.refusals();
        std::mem::replace(&mut self.egress, next).close().await;
    }
}

/// All that comes until the end.
pub(crate) async fn rest_bytes(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    // A reset is an end too.
    let _ = tokio::time::timeout(LONG, reading)
        .await
        .expect("an end in time");
    bytes
}

/// The same as text.
pub(crate) async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    String::from_utf8_lossy(&rest_bytes(stream).await).into_owned()
}

/// Reads up to the empty line, and not a byte more.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    let reading = async {
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.unwrap() == 0 {
                break;
            }
            head.push(byte[0]);
        }
    };
    tokio::time::timeout(LONG, reading)
        .await
        .expect("a head in time");
    String::from_utf8_lossy(&head).into_owned()
}

/// An authority and, by it, a server of these names.
fn certificates(names: &[&str]) -> (rcgen::Certificate, TlsAcceptor) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "Root of the tests");
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let server_key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(names).unwrap();
    let certificate = params.signed_by(&server_key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], key)
        .unwrap();
    (root, TlsAcceptor::from(Arc::new(config)))
}

async fn serve(seen: Seen, tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (seen, tls) = (seen.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => serve_http(stream, seen).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve_http(stream, seen).await;
                        }
                    }
                }
            });
        }
    });
    address
}

async fn serve_http(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, seen: Seen) {
    let service = service_fn(move |request| {
        let seen = seen.clone();
        async move { Ok::<_, Infallible>(answer(request, &seen).await) }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// Gives back the request: its head, an empty line, its body.
async fn answer(mut request: Request<Incoming>, seen: &Seen) -> Response<Full<Bytes>> {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text += &format!("{name}: {}\n", value.to_str().unwrap_or("?"));
    }
    seen.0.lock().unwrap().push(text.clone());
    match request.uri().path() {
        "/redirect" => Response::builder()
            .status(302)
            .header("location", "http://169.254.169.254/latest/meta-data/")
            .body(Full::default())
            .unwrap(),
        "/socket" => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            });
            Response::builder()
                .status(101)
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .body(Full::default())
                .unwrap()
        }
        _ => {
            let body = request.into_body().collect().await;
            let body = body.map(http_body_util::Collected::to_bytes);
            let body = body.unwrap_or_default();
            let answer = [text.as_bytes(), b"\n", &body].concat();
            Response::new(Full::new(answer.into()))
        }
    }
}

/// Speaks first, then gives back what it gets, to the end and after it.
async fn serve_banner() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(b"220 ready\r\n").await;
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).await;
                let _ = stream.write_all(&bytes).await;
            });
        }
    });
    address
}

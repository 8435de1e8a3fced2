//! A certificate authority of one sandbox, so that the proxy can put secrets into HTTPS requests.
//!
//! Only the sandbox trusts it: its certificate is given to programs inside by a file and the variables
//! of [`Authority::environment`]; its key stays with the hub. The proxy speaks for a host by it only
//! where the host has a secret; all other TLS passes untouched.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// How long the authority lasts: longer than any sandbox.
const LASTS: Duration = Duration::from_hours(10 * 365 * 24);
/// How long a host's certificate lasts; one is made for each connection.
const HOST_LASTS: Duration = Duration::from_hours(24);
/// Clocks differ.
const BEFORE: Duration = Duration::from_hours(24);

/// Variables by which programs are told where trusted certificates are.
const VARIABLES: [&str; 6] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
];

/// Where a sandbox finds the certificates to trust.
const BUNDLE: &str = "etc/ssl/sandshell.pem";

/// Where systems keep those that they trust themselves.
const SYSTEM_ROOTS: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// What makes the programs of a sandbox trust an authority.
#[derive(Debug, Clone)]
pub struct Trust {
    bundle: String,
}

impl Trust {
    /// Puts it among the files and the variables that a sandbox is to have. A variable that is there
    /// stays as it is.
    pub fn give(self, files: &mut Vec<(String, String)>, env: &mut BTreeMap<String, String>) {
        for (name, value) in Authority::environment(&format!("/{BUNDLE}")) {
            env.entry(name.to_owned()).or_insert(value);
        }
        files.push((BUNDLE.to_owned(), self.bundle));
    }
}

/// The authority of one sandbox.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pem: String,
    /// The key of the certificates it makes.
    host_key: KeyPair,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// Why there is no authority, or no certificate of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A key or certificate could not be made or read.
    #[error("cannot make or read a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS does not take it.
    #[error("cannot speak TLS with the certificate: {0}")]
    Tls(#[from] rustls::Error),
    /// The file cannot be used.
    #[error("cannot use the file of the certificate authority: {0}")]
    File(#[from] io::Error),
}

impl Authority {
    /// A fresh one.
    pub fn generate() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let params = authority_params();
        let pem = params.self_signed(&key)?.pem();
        Self::assemble(key, pem)
    }

    /// The one kept in this file (certificate and key, mode 0600), made when missing. The file is the
    /// hub's: it must not be in a directory that the sandbox or its agent sees.
    pub fn load_or_generate(path: &Path) -> Result<Self, AuthorityError> {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let key = KeyPair::from_pem(text.get(key_at(&text)..).unwrap_or_default())?;
                Self::assemble(
                    key,
                    text.get(..key_at(&text)).unwrap_or_default().to_owned(),
                )
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self::generate()?;
                made.save(path)?;
                Ok(made)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Complete or not there at all: written beside its place first.
    fn save(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        let text = format!("{}{}", self.pem, self.issuer.key().serialize_pem());
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(new, path)
    }

    fn assemble(key: KeyPair, pem: String) -> Result<Self, AuthorityError> {
        Ok(Self {
            issuer: Issuer::new(authority_params(), key),
            pem,
            host_key: KeyPair::generate()?,
        })
    }

    /// Its certificate (PEM).
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// The file for the sandbox: what it would trust anyway (PEM), and this authority. The variables
    /// of some programs replace their roots, so both belong in one file.
    pub fn bundle(&self, system_roots: &str) -> String {
        let gap = if system_roots.is_empty() || system_roots.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        format!("{system_roots}{gap}{}", self.pem)
    }

    /// What a sandbox on this machine needs to trust it, besides what the machine trusts.
    pub fn trust(&self) -> Trust {
        let roots = SYSTEM_ROOTS
            .iter()
            .find_map(|path| std::fs::read_to_string(path).ok());
        Trust {
            bundle: self.bundle(&roots.unwrap_or_default()),
        }
    }

    /// The variables that make programs inside trust the bundle at this path.
    pub fn environment(bundle: &str) -> impl Iterator<Item = (&'static str, String)> {
        VARIABLES.into_iter().map(|name| (name, bundle.to_owned()))
    }

    /// Speaks TLS as the server of this name.
    pub(super) fn acceptor(&self, name: &str) -> Result<TlsAcceptor, AuthorityError> {
        let mut params = CertificateParams::new([name.to_owned()])?;
        // Some verifiers want a subject; the host's name may be too long to be one.
        params.distinguished_name = called("Host spoken for by the Sandshell egress proxy");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_dates(&mut params, HOST_LASTS);
        let certificate: CertificateDer<'static> =
            params.signed_by(&self.host_key, &self.issuer)?.into();
        let key = PrivatePkcs8KeyDer::from(self.host_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Where the key begins in the file.
fn key_at(text: &str) -> usize {
    text.find("-----BEGIN PRIVATE KEY").unwrap_or(text.len())
}

/// The same each time, but for the dates: the name is what ties certificates to the authority.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = called("Sandshell egress proxy of this sandbox");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_dates(&mut params, LASTS);
    params
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

/// From before now until long after.
fn set_dates(params: &mut CertificateParams, lasts: Duration) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = rcgen::date_time_ymd(1970, 1, 1) + since.unwrap_or_default();
    params.not_before = now - BEFORE;
    params.not_after = now + lasts;
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_gives_the_same_authority_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority.pem");
        let first = Authority::load_or_generate(&path).unwrap();
        let again = Authority::load_or_generate(&path).unwrap();
        assert_eq!(first.certificate(), again.certificate());
        assert_eq!(
            first.issuer.key().serialize_der(),
            again.issuer.key().serialize_der()
        );
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(again.certificate().matches("BEGIN").count(), 1);
        assert!(!format!("{again:?}").contains("KEY"));
        std::fs::write(&path, "not a key").unwrap();
        assert!(Authority::load_or_generate(&path).is_err());
    }

    #[test]
    fn the_bundle_keeps_the_roots_there_were() {
        let authority = Authority::generate().unwrap();
        let bundle = authority.bundle("-----BEGIN CERTIFICATE-----");
        assert!(bundle.starts_with("-----BEGIN CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n"));
    }
}

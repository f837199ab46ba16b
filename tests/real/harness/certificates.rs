//! Certificates for a test: a CA, what it has issued, and a foreign CA, as PEM for us and as key stores for Java.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::java::Java;
use super::libs::Libs;
use super::process::{LeftOut, Result};
use super::release::Release;

/// Of all key stores and keys; nothing here is a secret.
pub const STORE_PASSWORD: &str = "changeit";

/// Hosts that the broker's certificate is for.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

/// The only host that the certificate of the misplaced listener is for.
pub const ELSEWHERE: &str = "kafka.elsewhere.test";

/// Files in a directory of their own, which goes with this.
pub struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    /// Makes them all: PEM files `<name>.pem` and `<name>.key`, and for brokers `<name>.p12` and `trust.p12`.
    ///
    /// | name | issued by | for |
    /// |---|---|---|
    /// | `ca`, `foreign-ca` | themselves | |
    /// | `server` | `ca` | 127.0.0.1 and localhost |
    /// | `expired` | `ca` | the same, until 2021 |
    /// | `elsewhere` | `ca` | [`ELSEWHERE`] |
    /// | `client` | `ca` | CN=client |
    /// | `mallory` | `ca` | CN=mallory |
    /// | `stranger` | `foreign-ca` | CN=stranger |
    pub fn make(java: &Java) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("downspout-certificates-").tempdir();
        let certificates = Self { dir: dir.map_err(|e| e.to_string())? };
        certificates.write()?;
        certificates.write_stores(java)?;
        Ok(certificates)
    }

    /// Java with what writes key stores; brokers before 2.7 (KIP-651) take nothing else.
    pub fn java(release: &Release) -> std::result::Result<Java, LeftOut> {
        Java::new(Libs::of(release)?, release.jvm_flags(), &["KeyStores"])
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The path of a certificate, PEM.
    pub fn pem(&self, name: &str) -> PathBuf {
        self.dir().join(format!("{name}.pem"))
    }

    /// The path of its key, PEM.
    pub fn key(&self, name: &str) -> PathBuf {
        self.dir().join(format!("{name}.key"))
    }

    /// The path of a key store, PKCS#12.
    pub fn store(&self, name: &str) -> String {
        self.dir().join(format!("{name}.p12")).display().to_string()
    }

    fn write(&self) -> Result<()> {
        let ours = self.authority("ca", "Downspout Test CA")?;
        let foreign = self.authority("foreign-ca", "Foreign Test CA")?;
        self.issue("server", &HERE, "broker", (2020, 2090), &ours)?;
        self.issue("expired", &HERE, "old broker", (2020, 2021), &ours)?;
        self.issue("elsewhere", &[ELSEWHERE], "moved broker", (2020, 2090), &ours)?;
        self.issue("client", &[], "client", (2020, 2090), &ours)?;
        self.issue("mallory", &[], "mallory", (2020, 2090), &ours)?;
        self.issue("stranger", &[], "stranger", (2020, 2090), &foreign)
    }

    fn authority(&self, file: &str, name: &str) -> Result<Issuer<'static, KeyPair>> {
        let key = KeyPair::generate().map_err(|e| e.to_string())?;
        let mut params = named(name, &[], (2020, 2090))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(|e| e.to_string())?;
        fs::write(self.pem(file), certificate.pem()).map_err(|e| e.to_string())?;
        Ok(Issuer::new(params, key))
    }

    fn issue(
        &self,
        file: &str,
        hosts: &[&str],
        name: &str,
        years: (i32, i32),
        issuer: &Issuer<'_, KeyPair>,
    ) -> Result<()> {
        let key = KeyPair::generate().map_err(|e| e.to_string())?;
        let mut params = named(name, hosts, years)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match hosts {
            [] => ExtendedKeyUsagePurpose::ClientAuth,
            _ => ExtendedKeyUsagePurpose::ServerAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, issuer).map_err(|e| e.to_string())?;
        fs::write(self.pem(file), certificate.pem()).map_err(|e| e.to_string())?;
        fs::write(self.key(file), key.serialize_pem()).map_err(|e| e.to_string())
    }

    fn write_stores(&self, java: &Java) -> Result<()> {
        let dir = self.dir().display().to_string();
        let names = ["server", "expired", "elsewhere", "client"].map(str::to_owned);
        let args = [vec![dir, STORE_PASSWORD.to_owned()], names.to_vec()].concat();
        java.run(self.dir(), "KeyStores", &args, Duration::from_secs(60)).map(drop)
    }
}

fn named(name: &str, hosts: &[&str], (from, until): (i32, i32)) -> Result<CertificateParams> {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).map_err(|e| e.to_string())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    Ok(params)
}

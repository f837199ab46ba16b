//! `ssl.…`: whom to trust, and which certificate to show.

use downspout::net::{Tls, TlsVersion, Verification};

use super::Settings;

pub(super) fn tls(settings: &Settings) -> Result<Tls, String> {
    let mut tls = Tls::new().verification(verification(settings)?).min_version(min_version(settings)?);
    for store in ["ssl.truststore", "ssl.keystore"] {
        is_pem(settings, store)?;
    }
    let location = settings.first(&["ssl.ca.location", "ssl.truststore.location"]);
    match (location, settings.first(&["ssl.ca.pem", "ssl.truststore.certificates"])) {
        (Some((file, _)), Some((text, _))) => {
            return Err(format!("{file} and {text}: one of them is wanted"));
        }
        // librdkafka's word for the system's.
        (Some((_, "probe")), None) | (None, None) => {}
        (Some((_, path)), None) => tls = tls.ca_file(path),
        (None, Some((_, pem))) => tls = tls.ca_pem(pem),
    }
    tls = client(settings, tls)?;
    if let Some(name) = settings.filled("ssl.server.name") {
        tls = tls.server_name(name);
    }
    Ok(tls)
}

fn client(settings: &Settings, tls: Tls) -> Result<Tls, String> {
    if let Some((name, _)) = settings.first(&["ssl.key.password"]) {
        return Err(format!(
            "{name}: encrypted keys cannot be read; decrypt it (openssl pkey -in KEY -out DECRYPTED), let only this program read it, and leave {name} out"
        ));
    }
    // Java has chain and key in one file.
    if let Some(path) = settings.filled("ssl.keystore.location") {
        return Ok(tls.client_certificate_files(path, path));
    }
    let files = ("ssl.certificate.location", "ssl.key.location");
    let texts =
        [("ssl.certificate.pem", "ssl.key.pem"), ("ssl.keystore.certificate.chain", "ssl.keystore.key")];
    let both =
        |(chain, key): (&'static str, &'static str)| match (settings.filled(chain), settings.filled(key)) {
            (Some(chain), Some(key)) => Ok(Some((chain, key))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(format!("{key} is missing, which {chain} needs")),
            (None, Some(_)) => Err(format!("{chain} is missing, which {key} needs")),
        };
    if let Some((chain, key)) = both(files)? {
        return Ok(tls.client_certificate_files(chain, key));
    }
    for pair in texts {
        if let Some((chain, key)) = both(pair)? {
            return Ok(tls.client_certificate_pem(chain, key));
        }
    }
    Ok(tls)
}

/// The types of Java's stores that are none of PEM have no place here.
fn is_pem(settings: &Settings, store: &'static str) -> Result<(), String> {
    let (location, kind) = (format!("{store}.location"), format!("{store}.type"));
    let Some(path) = settings.filled(&location) else { return Ok(()) };
    // The type that Java takes unless told otherwise is JKS; what the file is, is seen when it is read.
    match settings.filled(&kind).map(str::to_ascii_uppercase).as_deref() {
        None | Some("PEM") => Ok(()),
        Some(other) => Err(format!(
            "{kind}={other}: only PEM is read; convert it: keytool -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12; openssl pkcs12 -in store.p12 -nodes -out store.pem; and say {location}=store.pem, {kind}=PEM"
        )),
    }
}

fn min_version(settings: &Settings) -> Result<TlsVersion, String> {
    let Some((name, value)) = settings.first(&["ssl.enabled.protocols", "ssl.protocol"]) else {
        return Ok(TlsVersion::default());
    };
    let mut least = None;
    for version in value.split(',').map(str::trim) {
        match version {
            // What Java spells without a number is the newest.
            "TLS" | "TLSv1.2" => least = Some(TlsVersion::V1_2),
            "TLSv1.3" => least = least.or(Some(TlsVersion::V1_3)),
            // Allowed beside others by old files; not spoken here.
            "TLSv1" | "TLSv1.1" | "SSLv3" | "SSLv2" | "SSL" => {}
            other => {
                return Err(format!("{name}: {other} is no version of TLS; expected TLSv1.2 or TLSv1.3"));
            }
        }
    }
    // `ssl.protocol` of Java names what is offered at most.
    if name == "ssl.protocol" && least.is_some() {
        return Ok(TlsVersion::V1_2);
    }
    least.ok_or_else(|| format!("{name}={value}: only TLSv1.2 and TLSv1.3 are spoken"))
}

pub(super) fn verification(settings: &Settings) -> Result<Verification, String> {
    const ALL: &str = "enable.ssl.certificate.verification";
    const NAME: &str = "ssl.endpoint.identification.algorithm";
    match settings.get(ALL).map(str::trim) {
        None | Some("true") => {}
        Some("false") => return Ok(Verification::DangerouslyNothing),
        Some(_) => return Err(format!("{ALL}: expected true or false")),
    }
    match settings.get(NAME).map(|value| value.trim().to_ascii_lowercase()).as_deref() {
        None | Some("https") => Ok(Verification::Full),
        Some("" | "none") => Ok(Verification::DangerouslyAnyName),
        Some(_) => {
            Err(format!("{NAME}: expected https, or nothing to leave the names in certificates unchecked"))
        }
    }
}

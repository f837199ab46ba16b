//! Names in certificates, as people and brokers write them.

use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// What a certificate says of itself.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    pub(super) subject: String,
    pub(super) issuer: String,
    /// Seconds since 1970.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

impl Summary {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        match X509Certificate::from_der(certificate) {
            Ok((_, parsed)) => Summary {
                subject: shown(parsed.subject()),
                issuer: shown(parsed.issuer()),
                not_before: parsed.validity().not_before.timestamp(),
                not_after: parsed.validity().not_after.timestamp(),
            },
            Err(_) => Summary {
                subject: "a certificate that cannot be read".to_owned(),
                issuer: "somebody unknown".to_owned(),
                not_before: 0,
                not_after: 0,
            },
        }
    }
}

/// Whose certificate it is, in the form of RFC 2253, which brokers take for the principal.
pub(super) fn subject(certificate: &CertificateDer<'_>) -> String {
    Summary::of(certificate).subject
}

/// The last part first, as Java's `X500Principal.getName()` has it.
fn shown(name: &X509Name<'_>) -> String {
    let parts: Vec<String> =
        name.iter().map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let id = attribute.attr_type().to_id_string();
    let keyword = match id.as_str() {
        "2.5.4.3" => Some("CN"),
        "2.5.4.6" => Some("C"),
        "2.5.4.7" => Some("L"),
        "2.5.4.8" => Some("ST"),
        "2.5.4.9" => Some("STREET"),
        "2.5.4.10" => Some("O"),
        "2.5.4.11" => Some("OU"),
        "0.9.2342.19200300.100.1.1" => Some("UID"),
        "0.9.2342.19200300.100.1.25" => Some("DC"),
        _ => None,
    };
    match (keyword, attribute.as_str()) {
        (Some(keyword), Ok(value)) => format!("{keyword}={}", escaped(value)),
        (keyword, _) => {
            let value = attribute.attr_value();
            let tag = [value.header.tag().0 as u8];
            let hex: String = tag
                .iter()
                .chain(&der_length(value.data.len()))
                .chain(value.data)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("{}=#{hex}", keyword.unwrap_or(&id))
        }
    }
}

fn der_length(length: usize) -> Vec<u8> {
    let bytes = length.to_be_bytes();
    let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    if length < 0x80 { vec![length as u8] } else { [&[0x80 | bytes.len() as u8], bytes].concat() }
}

/// As Java does it, which escapes more than RFC 2253 asks for: `=` and `#` anywhere, and every blank at an end.
fn escaped(value: &str) -> String {
    let inner = value.trim_matches(' ');
    let before = value.len() - value.trim_start_matches(' ').len();
    let mut text = String::new();
    for (i, c) in value.char_indices() {
        let at_an_end = i < before || i >= before + inner.len();
        if at_an_end || matches!(c, ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn a_name_is_written_as_brokers_write_principals() {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in [
            (DnType::CountryName, "DE"),
            (DnType::OrganizationName, "Example, Inc."),
            (DnType::OrganizationalUnitName, " a+b"),
            (DnType::CommonName, "alice"),
        ] {
            params.distinguished_name.push(kind, value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(subject(certificate.der()), r"CN=alice,OU=\ a\+b,O=Example\, Inc.,C=DE");
    }

    #[test]
    fn names_are_escaped_as_java_prints_them() {
        // By X500Principal.getName() of Java 17.
        let table =
            [("a=b#c, x", r"a\=b\#c\, x"), ("#hash", r"\#hash"), ("ä€", "ä€"), ("  two  ", r"\ \ two\ \ ")];
        for (value, shown) in table {
            assert_eq!(escaped(value), shown);
        }
        assert_eq!(
            (der_length(5), der_length(200), der_length(300)),
            (vec![5], vec![0x81, 200], vec![0x82, 1, 44])
        );
    }

    #[test]
    fn bytes_that_are_no_certificate_have_a_name_too() {
        assert!(subject(&CertificateDer::from(vec![1, 2, 3])).contains("cannot be read"));
    }
}

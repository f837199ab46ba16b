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
            let mut der = vec![value.header.tag().0 as u8, value.data.len() as u8];
            der.extend_from_slice(value.data);
            let hex: String = der.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}=#{hex}", keyword.unwrap_or(&id))
        }
    }
}

fn escaped(value: &str) -> String {
    let mut text = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (i, c) in value.chars().enumerate() {
        let at_an_end = (c == ' ' && (i == 0 || i == last)) || (c == '#' && i == 0);
        if at_an_end || matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';') {
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
    fn bytes_that_are_no_certificate_have_a_name_too() {
        assert!(subject(&CertificateDer::from(vec![1, 2, 3])).contains("cannot be read"));
    }
}

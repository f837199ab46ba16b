//! TLS and SASL under the names that Kafka's and librdkafka's users know.

mod jaas;
mod login;
mod names;
mod transport;
pub(crate) mod values;

use std::collections::BTreeMap;

use downspout::net::{Secret, Security};

pub(crate) use names::{NAMES, is_name};

/// What was said of it: name and value, the last one of each name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings(BTreeMap<&'static str, Secret>);

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        let shown = |settings: &Settings| -> Vec<(&'static str, String)> {
            settings.0.iter().map(|(name, value)| (*name, value.expose().to_owned())).collect()
        };
        shown(self) == shown(other)
    }
}

impl Eq for Settings {}

/// What a security protocol is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Protocol {
    tls: bool,
    sasl: bool,
}

impl Settings {
    /// Keeps a setting of [`NAMES`].
    pub(crate) fn set(&mut self, name: &str, value: Secret) {
        if let Some(known) = NAMES.iter().find(|known| **known == name) {
            self.0.insert(known, value);
        }
    }

    /// What the settings come to; the error says which setting is wrong, and what to do.
    pub(crate) fn security(&self) -> Result<Security, String> {
        let protocol = self.protocol()?;
        let mut security = Security::plaintext();
        if protocol.tls {
            security = security.tls(transport::tls(self)?);
        }
        if protocol.sasl {
            security = security.sasl(login::sasl(self)?);
        }
        Ok(security)
    }

    /// The protocol, where it was said: to choose a broker's listener by.
    pub(crate) fn protocol_name(&self) -> Option<String> {
        self.get("security.protocol").map(str::to_ascii_uppercase)
    }

    /// What is to be warned about at each start.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        if !self.protocol().is_ok_and(|protocol| protocol.tls) {
            return None;
        }
        match transport::verification(self).ok()? {
            downspout::net::Verification::Full => None,
            downspout::net::Verification::DangerouslyAnyName => Some(
                "the names in the brokers' certificates are not checked (ssl.endpoint.identification.algorithm): whoever has a certificate of a trusted issuer can pretend to be a broker",
            ),
            downspout::net::Verification::DangerouslyNothing => Some(
                "the brokers' certificates are not verified (enable.ssl.certificate.verification=false): anybody on the way can read and change everything",
            ),
        }
    }

    fn protocol(&self) -> Result<Protocol, String> {
        let said = self.protocol_name();
        let protocol = match said.as_deref() {
            None | Some("PLAINTEXT") => Protocol { tls: false, sasl: false },
            Some("SSL") => Protocol { tls: true, sasl: false },
            Some("SASL_PLAINTEXT") => Protocol { tls: false, sasl: true },
            Some("SASL_SSL") => Protocol { tls: true, sasl: true },
            Some(other) => {
                return Err(format!(
                    "security.protocol={other}: expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
                ));
            }
        };
        let shown = said.as_deref().unwrap_or("PLAINTEXT, as it is unless said");
        for (prefix, used, wanted) in [
            ("sasl.", protocol.sasl, "SASL_SSL, or SASL_PLAINTEXT without TLS"),
            ("ssl.", protocol.tls, "SSL, or SASL_SSL with a login"),
        ] {
            let idle = self.0.keys().find(|name| name.starts_with(prefix) && names::says_more(name));
            if let Some(idle) = idle.filter(|_| !used) {
                return Err(format!(
                    "{idle} means nothing with security.protocol={shown}; say security.protocol={wanted}"
                ));
            }
        }
        Ok(protocol)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::expose)
    }

    /// A setting that is not empty.
    fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.trim().is_empty())
    }

    /// The first of these that is set and not empty.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, &str)> {
        names.iter().find_map(|name| Some((*name, self.filled(name)?)))
    }
}

#[cfg(test)]
mod tests;

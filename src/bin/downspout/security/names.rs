/// Every name, Kafka's own and librdkafka's.
pub(crate) const NAMES: &[&str] = &[
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.config",
    "sasl.login.callback.handler.class",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "ssl.server.name",
];

pub(crate) fn is_name(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Whether a value of this name must never be shown.
pub(super) fn is_secret(name: &str) -> bool {
    // Everything but what is known to be none: a name with a typing error in it may be one.
    let is_plain = matches!(
        name,
        "security.protocol"
            | "sasl.mechanism"
            | "sasl.mechanisms"
            | "sasl.username"
            | "sasl.oauthbearer.token.endpoint.url"
            | "sasl.oauthbearer.client.id"
            | "sasl.oauthbearer.client.credentials.client.id"
            | "sasl.oauthbearer.scope"
            | "sasl.oauthbearer.extensions"
            | "sasl.oauthbearer.method"
            | "sasl.login.callback.handler.class"
            | "ssl.protocol"
            | "ssl.enabled.protocols"
            | "ssl.endpoint.identification.algorithm"
            | "ssl.server.name"
    ) || (name.starts_with("ssl.")
        && (name.ends_with(".location") || name.ends_with(".type")));
    let is_about_it = ["sasl.", "ssl.", "security."].iter().any(|prefix| name.starts_with(prefix))
        || ["password", "secret", "token", "key"].iter().any(|word| name.contains(word));
    is_about_it && !is_plain
}

/// Whether it says who is who; other settings may stand in a file without a meaning.
pub(super) fn says_more(name: &str) -> bool {
    !matches!(
        name,
        "sasl.mechanism"
            | "sasl.mechanisms"
            | "sasl.login.callback.handler.class"
            | "sasl.oauthbearer.method"
            | "ssl.truststore.type"
            | "ssl.keystore.type"
            | "ssl.protocol"
            | "ssl.enabled.protocols"
            | "ssl.endpoint.identification.algorithm"
    )
}

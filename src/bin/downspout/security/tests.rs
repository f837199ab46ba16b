use super::*;

fn settings(given: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in given {
        assert!(is_name(name), "{name}");
        settings.set(name, Secret::new(*value));
    }
    settings
}

const USER: [(&str, &str); 2] = [("sasl.username", "alice"), ("sasl.password", "s3cret")];

fn with(more: &[(&'static str, &'static str)], base: &[(&'static str, &'static str)]) -> Settings {
    settings(&[base, more].concat())
}

#[test]
fn what_is_said_is_what_is_meant() {
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"s3cret\";";
    let bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";
    let unsecured = format!("{bearer} unsecuredLoginStringClaim_sub=\"admin\";");
    let client = format!(
        "{bearer} clientId=\"me\" clientSecret=\"s3cret\" scope=\"kafka\" extension_logicalCluster=\"lkc-1\";"
    );
    let sasl = |more: &[(&'static str, &'static str)]| with(more, &[("security.protocol", "SASL_PLAINTEXT")]);
    let table: Vec<(Settings, &str)> = vec![
        (settings(&[]), "Security { tls: None, sasl: None }"),
        (settings(&[("security.protocol", "plaintext")]), "tls: None, sasl: None"),
        (settings(&[("security.protocol", "SSL")]), "verification: Full"),
        (
            settings(&[("security.protocol", "ssl"), ("ssl.ca.location", "ca.pem")]),
            "roots: [File(\"ca.pem\")]",
        ),
        (
            settings(&[
                ("security.protocol", "SSL"),
                ("ssl.truststore.location", "ca.pem"),
                ("ssl.truststore.type", "PEM"),
            ]),
            "roots: [File(\"ca.pem\")]",
        ),
        (settings(&[("security.protocol", "SSL"), ("ssl.ca.location", "probe")]), "roots: []"),
        (
            settings(&[("security.protocol", "SSL"), ("ssl.keystore.location", "me.pem")]),
            "client: Some((File(\"me.pem\"), File(\"me.pem\")))",
        ),
        (
            settings(&[
                ("security.protocol", "SSL"),
                ("ssl.certificate.location", "c"),
                ("ssl.key.location", "k"),
            ]),
            "client: Some((File(\"c\"), File(\"k\")))",
        ),
        (
            settings(&[("security.protocol", "SSL"), ("ssl.enabled.protocols", "TLSv1.3")]),
            "min_version: V1_3",
        ),
        (
            settings(&[("security.protocol", "SSL"), ("ssl.enabled.protocols", "TLSv1.3, TLSv1.2,TLSv1")]),
            "min_version: V1_2",
        ),
        (settings(&[("security.protocol", "SSL"), ("ssl.protocol", "TLSv1.3")]), "min_version: V1_2"),
        (
            settings(&[("security.protocol", "SSL"), ("ssl.endpoint.identification.algorithm", "")]),
            "DangerouslyAnyName",
        ),
        (
            settings(&[("security.protocol", "SSL"), ("enable.ssl.certificate.verification", "false")]),
            "DangerouslyNothing",
        ),
        (
            settings(&[("security.protocol", "SSL"), ("ssl.server.name", "kafka")]),
            "server_name: Some(\"kafka\")",
        ),
        (
            sasl(&[("sasl.mechanism", "PLAIN"), USER[0], USER[1]]),
            "mechanism: \"PLAIN\", who: Some(\"User:alice\")",
        ),
        (sasl(&[("sasl.mechanisms", "scram-sha-256"), USER[0], USER[1]]), "mechanism: \"SCRAM-SHA-256\""),
        (
            settings(&[
                ("security.protocol", "SASL_PLAINTEXT"),
                ("sasl.mechanism", "SCRAM-SHA-512"),
                ("sasl.jaas.config", scram),
            ]),
            "\"SCRAM-SHA-512\", who: Some(\"User:alice\")",
        ),
        (
            settings(&[
                ("security.protocol", "SASL_PLAINTEXT"),
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.jaas.config", &unsecured),
            ]),
            "OAUTHBEARER",
        ),
        (
            settings(&[
                ("security.protocol", "SASL_SSL"),
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.jaas.config", &client),
                ("sasl.oauthbearer.token.endpoint.url", "https://oauth/token"),
            ]),
            "OAUTHBEARER",
        ),
        (
            sasl(&[
                ("sasl.mechanism", "OAUTHBEARER"),
                ("enable.sasl.oauthbearer.unsecure.jwt", "true"),
                ("sasl.oauthbearer.config", "principal=admin lifeSeconds=60 scope=a,b"),
            ]),
            "OAUTHBEARER",
        ),
        (
            sasl(&[
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.oauthbearer.token.endpoint.url", "file:///run/token"),
            ]),
            "OAUTHBEARER",
        ),
    ];
    for (settings, expected) in table {
        let security = settings.security().unwrap_or_else(|why| panic!("{settings:?}: {why}"));
        let shown = format!("{security:?}");
        assert!(shown.contains(expected), "{shown}, and not {expected}");
        assert!(!shown.contains("s3cret") && !format!("{settings:?}").contains("s3cret"));
    }
}

#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    let ssl = |more: &[(&'static str, &'static str)]| with(more, &[("security.protocol", "SSL")]);
    let sasl = |more: &[(&'static str, &'static str)]| with(more, &[("security.protocol", "SASL_SSL")]);
    let table: Vec<(Settings, &str)> = vec![
        (settings(&[("security.protocol", "TLS")]), "expected PLAINTEXT, SSL"),
        (settings(&USER), "say security.protocol=SASL_SSL"),
        (ssl(&USER), "sasl.password means nothing with security.protocol=SSL"),
        (settings(&[("ssl.ca.location", "ca.pem")]), "say security.protocol=SSL"),
        (
            with(&[("ssl.ca.location", "x")], &[("security.protocol", "SASL_PLAINTEXT")]),
            "ssl.ca.location means nothing",
        ),
        (sasl(&USER), "sasl.mechanism is missing"),
        (sasl(&[("sasl.mechanism", "GSSAPI")]), "Kerberos"),
        (sasl(&[("sasl.mechanism", "MD5")]), "expected PLAIN"),
        (sasl(&[("sasl.mechanism", "PLAIN"), USER[0]]), "sasl.password is missing"),
        (sasl(&[("sasl.mechanism", "PLAIN"), USER[1]]), "sasl.username is missing"),
        (
            sasl(&[
                ("sasl.mechanism", "PLAIN"),
                ("sasl.jaas.config", "x.ScramLoginModule required username=\"a\" password=\"s3cret\";"),
            ]),
            "PlainLoginModule does",
        ),
        (
            sasl(&[("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", "x required password=\"s3cret")]),
            "not closed",
        ),
        (sasl(&[("sasl.mechanism", "OAUTHBEARER")]), "needs a token"),
        (
            sasl(&[("sasl.mechanism", "OAUTHBEARER"), ("sasl.oauthbearer.token.endpoint.url", "https://x")]),
            "client.id is missing",
        ),
        (
            sasl(&[
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.oauthbearer.token.endpoint.url", "http://x"),
                ("sasl.oauthbearer.client.id", "a"),
                ("sasl.oauthbearer.client.secret", "s3cret"),
            ]),
            "must be an https:// URL",
        ),
        (
            ssl(&[("ssl.truststore.location", "t.jks"), ("ssl.truststore.type", "JKS")]),
            "keytool -importkeystore -srckeystore t.jks",
        ),
        (ssl(&[("ssl.certificate.location", "c")]), "ssl.key.location is missing"),
        (ssl(&[("ssl.key.pem", "s3cret")]), "ssl.certificate.pem is missing"),
        (ssl(&[("ssl.key.password", "s3cret")]), "decrypt it"),
        (ssl(&[("ssl.ca.location", "c"), ("ssl.ca.pem", "s3cret")]), "one of them"),
        (ssl(&[("ssl.enabled.protocols", "TLSv1.1")]), "only TLSv1.2 and TLSv1.3"),
        (ssl(&[("ssl.enabled.protocols", "TLSv1.4")]), "no version of TLS"),
        (ssl(&[("enable.ssl.certificate.verification", "no")]), "expected true or false"),
        (ssl(&[("ssl.endpoint.identification.algorithm", "ldap")]), "expected https"),
    ];
    for (settings, words) in table {
        let Err(why) = settings.security() else { panic!("{settings:?}") };
        assert!(why.contains(words), "{why}, and not {words}");
        assert!(!why.contains("s3cret"), "{why}");
    }
}

#[test]
fn what_is_not_verified_is_warned_about() {
    assert_eq!(settings(&[("security.protocol", "SSL")]).warning(), None);
    let off = ("enable.ssl.certificate.verification", "false");
    assert_eq!(settings(&[off]).warning(), None);
    let warning = settings(&[("security.protocol", "SASL_SSL"), off]).warning().unwrap();
    assert!(warning.contains("not verified"), "{warning}");
    let names = ("ssl.endpoint.identification.algorithm", "");
    assert!(settings(&[("security.protocol", "SSL"), names]).warning().unwrap().contains("names"));
}

//! Each way in which it does not work has an error of its own.

use super::*;

/// The sentence names all of these, and somebody has to act.
fn says(trouble: &TlsTrouble, words: &[&str]) {
    let sentence = trouble.to_string();
    for word in words {
        assert!(sentence.contains(word), "{word:?} is missing: {sentence}");
    }
    assert_eq!(Error::new(ErrorKind::Tls(trouble.clone())).retry(), Retry::Human, "{sentence}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_issuer_is_named() {
    let scene = Scene::new();
    let stranger = Authority::new("stranger");
    let trouble = scene.trouble(&scene.front(), Tls::new().ca_pem(&stranger.pem)).await;
    assert!(matches!(trouble, TlsTrouble::UnknownIssuer { .. }), "{trouble:?}");
    says(&trouble, &["CN=broker,O=Example", "CN=ca,O=Example", "ssl.ca.location"]);
    // Of the same name, with another key.
    let twin = Authority::new("ca");
    let trouble = scene.trouble(&scene.front(), Tls::new().ca_pem(&twin.pem)).await;
    says(&trouble, &["CN=broker,O=Example", "same name"]);
}

#[tokio::test(start_paused = true)]
async fn certificates_out_of_date_are_told_with_their_dates_and_this_clock() {
    let scene = Scene::new();
    for (valid, words) in [
        (Valid::Past, ["has expired on 2021-02-03", "clock says 20"]),
        (Valid::Future, ["is not valid before 2998-01-01", "clock says 20"]),
    ] {
        let issued = scene.ca.issue("broker", &[host(&scene.broker)], valid);
        let front = Front::before(&scene.broker, &Server::with(&issued));
        let trouble = scene.trouble(&front, scene.tls()).await;
        assert!(matches!(trouble, TlsTrouble::OutOfDate { .. }), "{trouble:?}");
        says(&trouble, &words);
        says(&trouble, &["CN=broker,O=Example", "CN=ca,O=Example"]);
        // Asked not to look, it does not.
        let blind = Tls::new().verification(Verification::DangerouslyNothing);
        scene.connect(&front, blind).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_does_not_match_is_told_with_those_that_would() {
    let scene = Scene::new();
    let issued = scene.ca.issue("broker", &["kafka.example", "10.1.2.3"], Valid::Now);
    let front = Front::before(&scene.broker, &Server::with(&issued));
    let trouble = scene.trouble(&front, scene.tls()).await;
    says(&trouble, &["kafka.example", "10.1.2.3", host(&scene.broker), "ssl.server.name"]);
    scene.connect(&front, scene.tls().server_name("kafka.example")).await.unwrap();
    scene.connect(&front, scene.tls().server_name("10.1.2.3")).await.unwrap();
    scene.connect(&front, scene.tls().verification(Verification::DangerouslyAnyName)).await.unwrap();
    // Without names there is only the CN, which nobody looks at any more.
    let issued = scene.ca.issue(host(&scene.broker), &[], Valid::Now);
    let trouble = scene.trouble(&Front::before(&scene.broker, &Server::with(&issued)), scene.tls()).await;
    says(&trouble, &["no subject alternative names", "CN is not looked at"]);
    // Any name is not any issuer.
    let stranger = Tls::new().ca_pem(&Authority::new("stranger").pem);
    let trouble = scene.trouble(&front, stranger.verification(Verification::DangerouslyAnyName)).await;
    assert!(matches!(trouble, TlsTrouble::UnknownIssuer { .. }), "{trouble:?}");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_wants_another_client_certificate_or_any_says_so() {
    let scene = Scene::new();
    let foreign = Authority::new("stranger").issue("mallory", &[], Valid::Now);
    let expired = scene.ca.issue("alice", &[], Valid::Past);
    // TLS 1.3 tells it when the client has long begun to talk.
    for versions in [front::V1_2, front::V1_3] {
        let server = Server { issued: &scene.issued, client_ca: Some(&scene.ca.pem), versions };
        let front = Front::before(&scene.broker, &server);
        let trouble = scene.trouble(&front, scene.tls()).await;
        assert!(matches!(trouble, TlsTrouble::Refused { .. }), "{trouble:?}");
        says(&trouble, &["certificate_required", "ssl.certificate.location"]);
        for (shown, alert) in [(&foreign, "unknown_ca"), (&expired, "certificate_expired")] {
            let tls = scene.tls().client_certificate_pem(&shown.chain, shown.key.as_str());
            let trouble = scene.trouble(&front, tls).await;
            says(&trouble, &[alert]);
        }
    }
}

/// As brokers of 0.9 and 0.10 do.
#[tokio::test(start_paused = true)]
async fn a_broker_that_closes_when_it_has_asked_for_a_certificate_refuses_it() {
    let scene = Scene::new();
    let foreign = Authority::new("stranger").issue("mallory", &[], Valid::Now);
    let server = Server { issued: &scene.issued, client_ca: Some(&scene.ca.pem), versions: front::V1_2 };
    let front = Front::before(&scene.broker, &server);
    for shown in [false, true] {
        let tls = || match shown {
            true => scene.tls().client_certificate_pem(&foreign.chain, foreign.key.as_str()),
            false => scene.tls(),
        };
        front.then(Then::CloseOnAnswer(usize::MAX));
        let before = front.connections();
        let trouble = scene.trouble(&front, tls()).await;
        assert_eq!(trouble, TlsTrouble::ClosedOnCertificate { shown });
        says(&trouble, &["client certificate", "ssl.certificate.location"]);
        assert_eq!(front.connections() - before, 2, "it is tried once more, not for ever");
        // Before it has asked, nothing is known.
        for cut in [1, 100, 300] {
            front.then(Then::CutAfter(cut));
            assert_eq!(scene.trouble(&front, tls()).await, TlsTrouble::NotTls(None), "{cut}");
        }
    }
    // Once is an accident.
    let alice = scene.ca.issue("alice", &[], Valid::Now);
    front.then(Then::CloseOnAnswer(front.connections() + 1));
    scene
        .connect(&front, scene.tls().client_certificate_pem(&alice.chain, alice.key.as_str()))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_version_in_common_is_said() {
    let scene = Scene::new();
    let server = Server { issued: &scene.issued, client_ca: None, versions: front::V1_2 };
    let front = Front::before(&scene.broker, &server);
    let trouble = scene.trouble(&front, scene.tls().min_version(TlsVersion::V1_3)).await;
    says(&trouble, &["version"]);
    scene.connect(&front, scene.tls().min_version(TlsVersion::V1_2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn plain_on_a_tls_port_and_tls_on_a_plain_port_name_the_protocol_to_use() {
    let scene = Scene::new();
    let plain = Cluster::builder([scene.broker.addr()]).connector(scene.front()).connect().await;
    let error = plain.unwrap_err();
    assert!(matches!(cause(&error).kind(), ErrorKind::WrongProtocol(Speaks::Tls)), "{error:?}");
    assert!(error.to_string().contains("security.protocol SSL or SASL_SSL"), "{error}");

    let secure = Cluster::builder([scene.broker.addr()])
        .connector(scene.broker.connector())
        .security(Security::plaintext().tls(scene.tls()))
        .connect()
        .await;
    let trouble = tls_trouble(&secure.unwrap_err()).clone();
    assert_eq!(trouble, TlsTrouble::NotTls(Some(Speaks::Kafka)));
    says(&trouble, &["PLAINTEXT or SASL_PLAINTEXT"]);
}

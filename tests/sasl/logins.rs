use downspout::spout::{Brokers, Spout};
use tokio::time::{Instant, sleep, timeout};

use super::*;

/// SaslHandshake 0 with bare tokens, 1 with SaslAuthenticate 0, 1 and 2.
const ERAS: [Release; 5] =
    [Release::V0_10_0, Release::V0_11_0, Release::V1_1, Release::V2_4, Release::LATEST];

#[tokio::test(start_paused = true)]
async fn case_65_66_each_mechanism_in_each_era() {
    for release in ERAS {
        let broker = brokers(release);
        broker.append("t", 0, &set(0..10, magic(release))).unwrap();
        for sasl in right() {
            let gate = Gate::before(&broker);
            let named = format!("{} on {release}", sasl.mechanism());
            let cluster =
                cluster(&gate, &broker, sasl).connect().await.unwrap_or_else(|why| panic!("{named}: {why}"));
            let mut stream = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap();
            assert_eq!(read(&mut stream, 10).await, numbers(0..10), "{named}");
            let seen = gate.seen();
            assert_eq!((seen.strays.len(), seen.refused), (0, 0), "{named}");
            assert_eq!(seen.logins, seen.connections, "{named}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_says_so_and_is_not_tried_again_for_a_while() {
    for release in [Release::V0_11_0, Release::V1_1, Release::LATEST] {
        let broker = brokers(release);
        for sasl in mechanisms("wr0ng", "wr0ng") {
            let named = format!("{} on {release}", sasl.mechanism());
            let gate = Gate::before(&broker);
            let cluster = cluster(&gate, &broker, sasl.clone()).build().unwrap();
            let start = Instant::now();
            let error = cluster.partition("t", 0).stream(StartOffset::Earliest).await.unwrap_err();
            assert!(start.elapsed() < Duration::from_secs(1), "{named}: {:?}", start.elapsed());
            let LoginTrouble::Refused { mechanism, .. } = login_trouble(&error) else { panic!("{error:?}") };
            assert_eq!(*mechanism, sasl.mechanism());
            assert_eq!((error.fault(), error.retry()), (Fault::Caller, Retry::Human), "{named}");

            // Somebody asks again and again, for nine seconds.
            while start.elapsed() < Duration::from_secs(9) {
                assert!(cluster.metadata(&["t"]).await.is_err());
                sleep(Duration::from_millis(100)).await;
            }
            // A close without a word is believed when it has come twice.
            let most = if release == Release::V0_11_0 { 2 } else { 1 };
            assert!(gate.seen().logins <= most, "{named}: {} logins", gate.seen().logins);
            sleep(Duration::from_secs(10)).await;
            assert!(cluster.metadata(&["t"]).await.is_err());
            assert!(gate.seen().logins > 1, "{named}: it is tried again after a while");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_a_spout_and_is_its_error() {
    let broker = brokers(Release::LATEST);
    let gate = Gate::before(&broker);
    let cluster = cluster(&gate, &broker, Sasl::plain(USER, "wr0ng")).build().unwrap();
    let built = timeout(
        Duration::from_secs(120),
        Spout::builder(Brokers::cluster(cluster))
            .topic("t")
            .id("x")
            .checkpoints(downspout::checkpoint::MemoryCheckpoints::new())
            .build(),
    );
    let error = built.await.unwrap().unwrap_err();
    assert!(matches!(login_trouble(&error), LoginTrouble::Refused { .. }), "{error}");
    assert!(gate.seen().logins < 20, "{}", gate.seen().logins);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_stops_in_a_login_is_no_refusal() {
    let broker = brokers(Release::V0_11_0);
    let gate = Gate::before(&broker);
    // It is gone in the first login, and there again in the second.
    gate.change(|rules| rules.lie = Some(Lie::Leaves));
    cluster(&gate, &broker, Sasl::plain(USER, PASSWORD)).connect().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_common_mechanism_shows_the_broker_s_list() {
    for release in [Release::V0_11_0, Release::LATEST] {
        let broker = brokers(release);
        let gate = Gate::before(&broker);
        gate.change(|rules| rules.mechanisms = vec!["GSSAPI", "SCRAM-SHA-512"]);
        let error = cluster(&gate, &broker, Sasl::plain(USER, PASSWORD)).connect().await.unwrap_err();
        let trouble = login_trouble(&error);
        assert!(
            matches!(trouble, LoginTrouble::NoMechanism { offered, .. } if *offered == ["GSSAPI", "SCRAM-SHA-512"]),
            "{trouble:?}"
        );
        assert!(error.to_string().contains("GSSAPI, SCRAM-SHA-512"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_login_hears_what_the_listener_wants() {
    let broker = brokers(Release::LATEST);
    let gate = Gate::before(&broker);
    gate.change(|rules| rules.mechanisms = vec!["SCRAM-SHA-512"]);
    let consumer = SimpleConsumer::builder(broker.addr()).connector(gate.clone()).connect().await.unwrap();
    let error = consumer.earliest_offset("t", 0).await.unwrap_err();
    assert!(error.to_string().contains("SCRAM-SHA-512"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_listener_without_sasl_says_that_it_wants_no_login() {
    let broker = brokers(Release::LATEST);
    let security = Security::plaintext().sasl(Sasl::plain(USER, PASSWORD));
    let cluster = Cluster::builder([broker.addr()]).connector(broker.connector()).security(security);
    let error = cluster.connect().await.unwrap_err();
    assert_eq!(*login_trouble(&error), LoginTrouble::NotWanted, "{error}");
}

#[derive(Debug)]
struct Provider(Option<&'static str>);

impl TokenProvider for Provider {
    fn token(&self) -> BoxFuture<'_, std::result::Result<BearerToken, TokenError>> {
        match self.0 {
            Some(why) => Box::pin(std::future::ready(Err(TokenError::Unavailable(why.to_owned())))),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_gives_no_token_is_an_error_in_bounded_time() {
    let broker = brokers(Release::LATEST);
    let gate = Gate::before(&broker);
    for (provider, words) in
        [(Provider(Some("the vault is sealed")), "the vault is sealed"), (Provider(None), "none within")]
    {
        let sasl = Sasl::oauth_bearer(provider);
        let connecting = cluster(&gate, &broker, sasl).api_timeout(Duration::from_secs(1)).connect();
        let error = timeout(Duration::from_secs(60), connecting).await.unwrap().unwrap_err();
        assert!(matches!(login_trouble(&error), LoginTrouble::NoToken(_)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(gate.seen().logins, 0);
    let error = cluster(&gate, &broker, Sasl::oauth_bearer(Token("two words")))
        .api_timeout(Duration::from_secs(1))
        .connect()
        .await
        .unwrap_err();
    assert!(!format!("{error:?}").contains("two words"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_shown_by_anything() {
    let broker = brokers(Release::LATEST);
    let gate = Gate::before(&broker);
    let secrets = ["wr0ng-s3cret", "wr0ng-s3cret"];
    for sasl in mechanisms(secrets[0], "wr0ng-s3cret") {
        let builder = cluster(&gate, &broker, sasl.clone());
        let mut shown = format!("{sasl:?} {builder:?}");
        let cluster = builder.build().unwrap();
        shown += &format!("{cluster:?}");
        let error = cluster.metadata(&["t"]).await.unwrap_err();
        shown += &format!("{error} {error:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    let request = downspout::protocol::SaslAuthenticateRequest { auth_bytes: "s3cret".into() };
    assert!(!format!("{request:?}").contains("s3cret"), "{request:?}");
}

use downspout::checkpoint::MemoryCheckpoints;
use downspout::spout::{Brokers, Spout};

use super::*;

#[tokio::test(start_paused = true)]
async fn records_are_read_over_each_version_with_and_without_a_client_certificate() {
    let scene = Scene::new();
    scene.broker.append("t", 0, &set(0..1000, 10)).unwrap();
    let alice = scene.ca.issue("alice", &[], Valid::Now);
    for versions in [front::V1_2, front::V1_3, &front::BOTH] {
        for client_ca in [None, Some(scene.ca.pem.as_str())] {
            let front = Front::before(&scene.broker, &Server { client_ca, versions, issued: &scene.issued });
            let tls = scene.tls().client_certificate_pem(&alice.chain, alice.key.as_str());
            let cluster = scene.connect(&front, tls.clone()).await.unwrap();
            read(&mut stream(&cluster).await, 1000).await;
            assert_eq!(tls.principal().as_deref(), Some("User:CN=alice,O=Example"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fetches_of_several_megabytes_come_whole() {
    let scene = Scene::new();
    // More than a socket's buffer and TLS's records hold, in entries that divide neither.
    for batch in 0..40 {
        scene.broker.append("t", 0, &set(batch * 50..batch * 50 + 50, 7001)).unwrap();
    }
    let cluster = scene.connect(&scene.front(), scene.tls()).await.unwrap();
    read(&mut stream(&cluster).await, 2000).await;
}

#[tokio::test(start_paused = true)]
async fn a_spout_reads_and_acknowledges_over_tls() {
    let scene = Scene::new();
    scene.broker.append("t", 0, &set(0..500, 10)).unwrap();
    let cluster = scene.connect(&scene.front(), scene.tls()).await.unwrap();
    let kept = MemoryCheckpoints::new();
    let spout = Spout::builder(Brokers::cluster(cluster)).topic("t").id("x").checkpoints(kept.clone());
    let mut spout = spout.start(StartOffset::Earliest).build().await.unwrap();
    for _ in 0..500 {
        spout.next().await.unwrap().unwrap().ack();
    }
    let closed = spout.close().await.unwrap();
    assert!(format!("{closed:?}").contains("500"), "{closed:?}");
}

#[tokio::test(start_paused = true)]
async fn later_connections_take_up_the_session_of_the_first() {
    let scene = Scene::new();
    let front = scene.front();
    let dialer = Dialer::default()
        .connector(Arc::new(front.clone()))
        .security(Security::plaintext().tls(scene.tls()))
        .unwrap();
    let address = scene.broker.addr().parse().unwrap();
    for _ in 0..3 {
        // The ticket has come by the time that a request was answered.
        dialer.dial(&address).await.unwrap();
    }
    assert_eq!((front.connections(), front.resumed()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_chain_through_an_authority_in_between_is_followed() {
    let scene = Scene::new();
    let between = scene.ca.below("between");
    let leaf = between.issue("broker", &[host(&scene.broker)], Valid::Now);
    let whole = Issued { chain: format!("{}{}", leaf.chain, between.pem), ..leaf.clone() };
    scene.connect(&Front::before(&scene.broker, &Server::with(&whole)), scene.tls()).await.unwrap();
    let trouble = scene.trouble(&Front::before(&scene.broker, &Server::with(&leaf)), scene.tls()).await;
    let TlsTrouble::UnknownIssuer { issuer, .. } = &trouble else { panic!("{trouble:?}") };
    assert_eq!(issuer, "CN=between,O=Example");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_a_broker_made_for_itself_can_be_the_trusted_one() {
    let scene = Scene::new();
    let own = authority::by_itself("broker", &[host(&scene.broker)]);
    let front = Front::before(&scene.broker, &Server::with(&own));
    let trusting = |pem: &str| Tls::new().ca_pem(pem);
    scene.connect(&front, trusting(&own.chain)).await.unwrap();
    // The name is checked all the same.
    let trouble = scene.trouble(&front, trusting(&own.chain).server_name("other.example")).await;
    assert!(
        matches!(&trouble, TlsTrouble::WrongName { expected, .. } if expected == "other.example"),
        "{trouble:?}"
    );
    let any_name = trusting(&own.chain).server_name("other.example");
    scene.connect(&front, any_name.verification(Verification::DangerouslyAnyName)).await.unwrap();
    // Another one of the same make is not.
    let other = authority::by_itself("broker", &[host(&scene.broker)]);
    let trouble = scene.trouble(&front, trusting(&other.chain)).await;
    assert!(matches!(trouble, TlsTrouble::BadCertificate { .. }), "{trouble:?}");
}

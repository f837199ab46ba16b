//! Handshakes that do not end, or not well: an error in bounded time, whatever comes.

use proptest::prelude::*;
use tokio::time::{Instant, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn what_is_no_tls_is_named_by_its_words() {
    let scene = Scene::new();
    let front = scene.front();
    for (words, speaks) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(), Speaks::Http),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Speaks::Ssh),
        (b"\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0", Speaks::Kafka),
    ] {
        front.then(Then::Say(words));
        assert_eq!(scene.trouble(&front, scene.tls()).await, TlsTrouble::NotTls(Some(speaks)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_ends_with_the_time_to_connect() {
    let scene = Scene::new();
    let front = scene.front();
    front.then(Then::Stall);
    let start = Instant::now();
    let cluster = scene.cluster(&front, scene.tls()).connect_timeout(Duration::from_secs(3)).build().unwrap();
    let asked = timeout(Duration::from_secs(300), cluster.metadata(&["t"])).await.unwrap();
    let error = asked.unwrap_err();
    assert!(cause(&error).to_string().contains("handshake did not end within 3s"), "{error}");
    assert_eq!(cause(&error).retry(), Retry::Again);
    assert!(start.elapsed() >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_closes_in_the_handshake_while_it_starts_is_tried_again() {
    let scene = Scene::new();
    scene.broker.append("t", 0, &set(0..10, 10)).unwrap();
    let front = scene.front();
    let cluster = scene.connect(&front, scene.tls()).await.unwrap();
    let mut stream = stream(&cluster).await;
    read(&mut stream, 10).await;
    // It goes, and what takes its connections closes them for a while.
    let before = front.connections();
    front.then(Then::CloseFirst(before + 20));
    front.cut();
    scene.broker.append("t", 0, &set(10..20, 10)).unwrap();
    let more = timeout(Duration::from_secs(300), stream.next()).await.unwrap();
    assert!(matches!(more, Ok(Some(Item::Batch(_)))), "{more:?}");
    assert!(front.connections() > before + 20);
}

/// How many bytes the server sends until a client has its first answer.
async fn whole(scene: &Scene, front: &Front) -> usize {
    dial(scene, front).await.unwrap();
    front.sent()
}

async fn dial(scene: &Scene, front: &Front) -> Result<Connection> {
    let dialer = Dialer::default()
        .connector(Arc::new(front.clone()))
        .security(Security::plaintext().tls(scene.tls()))
        .unwrap();
    let address = scene.broker.addr().parse().unwrap();
    timeout(Duration::from_secs(120), dialer.dial(&address)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_at_any_byte_is_an_error_in_bounded_time() {
    let scene = Scene::new();
    let front = scene.front();
    let whole = whole(&scene, &front).await;
    assert!((500..8000).contains(&whole), "{whole}");
    // Every one in the handshake, which ends before the 700th; some later on.
    for cut in (0..700.min(whole)).chain((700..whole - 1).step_by(13)) {
        front.then(Then::CutAfter(cut));
        match dial(&scene, &front).await {
            Ok(connection) => assert!(cut >= 700 && connection.versions().is_some(), "{cut}"),
            Err(error) => assert_eq!(error.retry(), Retry::Again, "{cut}: {error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_byte_that_was_changed_on_the_way_is_never_taken_for_an_answer() {
    let scene = Scene::new();
    let front = scene.front();
    let whole = whole(&scene, &front).await;
    for at in (0..whole).step_by(7) {
        front.then(Then::Flip(at));
        // A session ticket that was changed is the only thing that a client cannot see; all else is an error.
        match dial(&scene, &front).await {
            Ok(connection) => assert!(connection.versions().is_some(), "{at}"),
            Err(error) => assert!(!error.to_string().is_empty(), "{at}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn noise_in_place_of_a_handshake_is_an_error_in_bounded_time(
        head in prop_oneof![
            Just(vec![]), Just(vec![0x16, 3, 3]), Just(vec![0x15, 3, 3, 0, 2]), Just(vec![0x16, 3, 3, 0, 0x7a, 2, 0, 0, 0x76]),
        ],
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scene = Scene::new();
            let front = scene.front();
            front.then(Then::Say(Vec::leak([head, noise].concat())));
            dial(&scene, &front).await.unwrap_err();
        });
    }
}

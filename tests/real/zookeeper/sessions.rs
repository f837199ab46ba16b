//! What a session promises while all is well, and how it begins and ends.

use std::net::TcpListener;

use downspout::zookeeper::{Created, Deleted, Mode, Node, Session, Written};
use downspout::{ErrorKind, Retry};

use super::*;
use crate::harness::{Proxy, ZOOKEEPERS};
use crate::stage::Turn;

/// What the trait says, on a server of that release.
async fn keeps_its_word(alone: &Alone) {
    let at = |chroot: &str| format!("{}{chroot}", alone.connect_string());
    let one = session(&at("/größe/ключ")).await;
    let plain = session(&at("")).await;
    assert_eq!(one.describe(), format!("zk://{}/größe/ключ", alone.connect_string()));

    // The parents of a node are made, the chroot included, in any script.
    assert_eq!(one.get("/数/x").await.unwrap(), None);
    assert_eq!(one.children("/").await.unwrap(), None);
    assert_eq!(one.create("/数/x", b"1".to_vec(), Mode::Persistent).await.unwrap(), Created::Made);
    assert_eq!(one.create("/数/x", b"2".to_vec(), Mode::Persistent).await.unwrap(), Created::Exists);
    let node = |data: &[u8], version, is_ephemeral| Some(Node { data: data.to_vec(), version, is_ephemeral });
    assert_eq!(plain.get("/größe/ключ/数/x").await.unwrap(), node(b"1", 0, false));

    // Writes are conditional.
    assert_eq!(one.set("/数/x", b"3".to_vec(), 0).await.unwrap(), Written::Stored { version: 1 });
    assert_eq!(one.set("/数/x", b"4".to_vec(), 0).await.unwrap(), Written::Conflict(node(b"3", 1, false)));
    assert_eq!(one.set("/none", b"4".to_vec(), 0).await.unwrap(), Written::Missing);

    // Children are in order; what has some is not deleted.
    for name in ["b", "a", "c"] {
        let path = format!("/数/{name}");
        assert_eq!(one.create(&path, Vec::new(), Mode::Ephemeral).await.unwrap(), Created::Made);
    }
    assert_eq!(one.children("/数").await.unwrap().unwrap(), ["a", "b", "c", "x"]);
    assert_eq!(one.get("/数/a").await.unwrap(), node(b"", 0, true));
    assert_eq!(one.delete("/数", -1).await.unwrap(), Deleted::NotEmpty);
    assert_eq!(one.delete("/数/x", 0).await.unwrap(), Deleted::Conflict);
    assert_eq!(one.delete("/数/x", 1).await.unwrap(), Deleted::Gone);
    assert_eq!(one.get("/数/x").await.unwrap(), None);
    assert!(
        one.create("/数/a/below", Vec::new(), Mode::Persistent).await.is_err(),
        "an ephemeral one has none below"
    );

    // A large one, and many calls at a time.
    let large = vec![7; 900_000];
    assert_eq!(one.create("/large", large.clone(), Mode::Persistent).await.unwrap(), Created::Made);
    assert_eq!(one.get("/large").await.unwrap().unwrap().data, large);
    let one = std::sync::Arc::new(one);
    let many: Vec<_> = (0..300)
        .map(|_| {
            let one = std::sync::Arc::clone(&one);
            tokio::spawn(async move { one.get("/数/a").await.unwrap().is_some() })
        })
        .collect();
    for call in many {
        assert!(call.await.unwrap());
    }
    assert!(one.silence() < SESSION / 3, "{:?}", one.silence());
    assert_ne!(one.session(), plain.session());
    assert_eq!(one.timeout(), SESSION);
    // The servers here give 10 s at most: who counts on more is fenced out without knowing it.
    let longer = Session::builder(&at("")).unwrap().timeout(Duration::from_secs(30)).connect().await.unwrap();
    assert_eq!(longer.timeout(), Duration::from_secs(10));
    longer.close().await;

    // Nothing ephemeral stays.
    one.close().await;
    eventually("the end of what was ephemeral", Duration::from_secs(1), async || {
        plain.children("/größe/ключ/数").await.unwrap().unwrap().is_empty()
    })
    .await;
    assert!(matches!(one.get("/x").await.unwrap_err().kind(), ErrorKind::ClientClosed));
    plain.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sk31_a_session_reads_writes_and_makes_nodes_below_its_chroot() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    keeps_its_word(&alone).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn a_session_works_with_every_line_of_zookeeper() {
    let _turn = Turn::take();
    for release in ZOOKEEPERS {
        let Some(java) = java(release) else { continue };
        keeps_its_word(&Alone::of(&java)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_no_session_stays_after_close_drop_or_an_abandoned_start() {
    let _turn = Turn::take();
    let Some(mut alone) = Alone::start() else { return };
    let servers = alone.connect_string();
    let live = |alone: &Alone| alone.server.sessions().unwrap().len();

    let one = session(&servers).await;
    assert_eq!(live(&alone), 1);
    one.close().await;
    eventually("the end of a closed session", Duration::from_secs(1), async || live(&alone) == 0).await;
    one.close().await; // again: nothing

    let one = session(&servers).await;
    std::thread::spawn(move || drop(one)).join().unwrap(); // no runtime there
    eventually("the end of a dropped session", Duration::from_secs(1), async || live(&alone) == 0).await;

    for millis in [0, 1, 3, 10, 30] {
        let start = Session::connect(&servers);
        let _ = tokio::time::timeout(Duration::from_millis(millis), start).await;
    }
    eventually("the end of abandoned ones", Duration::from_secs(2), async || live(&alone) == 0).await;

    let one = session(&servers).await;
    alone.server.freeze().unwrap();
    bounded("close on a frozen server", one.close()).await;
    alone.server.resume().unwrap();
    eventually("its end when the server goes on", Duration::from_secs(2), async || live(&alone) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn storm_2713_storm_498_every_server_is_tried_and_a_start_without_any_fails_in_time() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = mute.local_addr().unwrap();
    // Whatever order chance gives them.
    for _ in 0..4 {
        let servers = format!("{closed},{silent},no-such-host.invalid:2181,{}", alone.connect_string());
        session(&servers).await.close().await;
    }
    for (servers, why) in [
        (closed.to_string(), "refused"),
        (silent.to_string(), "gives no session"),
        ("no-such-host.invalid:2181".to_owned(), "no-such-host.invalid:2181: "),
    ] {
        let start = Instant::now();
        let builder = Session::builder(&servers).unwrap().timeout(SESSION);
        let (cores, error) = cores_used(async { builder.connect().await.unwrap_err() }).await;
        assert!(start.elapsed() < SESSION + Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.retry(), Retry::Again);
        assert!(cores < 0.2, "{servers}: {cores:.2} cores");
    }
    let error = Session::builder("a").unwrap().timeout(Duration::from_secs(1)).connect().await.unwrap_err();
    assert!(error.to_string().contains("at least 4s"), "{error}");
}

/// Gives a node to that user, and perhaps something to everybody; a client of the crate's own is what can.
async fn give_rights(servers: &str, path: &str, auth: &[u8], all: Option<zookeeper_async::Permission>) {
    use zookeeper_async::{Acl, WatchedEvent, ZooKeeper};
    let zk = ZooKeeper::connect(servers, SESSION, |_: WatchedEvent| {}).await.unwrap();
    zk.add_auth("digest", auth.to_vec()).await.unwrap();
    let mut acl = Acl::creator_all().clone();
    acl.extend(all.map(|all| Acl::new(all, "world", "anyone")));
    zk.set_acl(path, acl, None).await.unwrap();
    zk.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn new_nodes_take_the_rights_of_their_parent_and_credentials_outlive_connections() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let servers = alone.connect_string();
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let stranger = session(&servers).await;
    stranger.create("/mine", Vec::new(), Mode::Persistent).await.unwrap();
    give_rights(&servers, "/mine", b"me:secret", None).await;

    let builder = Session::builder(&proxy.address().to_string()).unwrap().timeout(SESSION);
    assert!(!format!("{:?}", builder.clone().digest("me", "secret")).contains("secret"));
    let me = builder.digest("me", "secret").connect().await.unwrap();
    assert_eq!(me.create("/mine/a/b", b"1".to_vec(), Mode::Persistent).await.unwrap(), Created::Made);
    for path in ["/mine", "/mine/a", "/mine/a/b"] {
        let error = stranger.get(path).await.unwrap_err();
        assert!(error.to_string().contains("may not be read"), "{path}: {error}");
        assert_eq!(error.retry(), Retry::Human);
    }
    assert_eq!(stranger.create("/mine/c", Vec::new(), Mode::Persistent).await.unwrap(), Created::Denied);
    assert_eq!(stranger.set("/mine/a/b", Vec::new(), 0).await.unwrap(), Written::Denied);
    assert_eq!(stranger.delete("/mine/a/b", 0).await.unwrap(), Deleted::Denied);
    // Whoever may make a node, and is not shown the rights that it should have, makes none that nobody can use.
    use zookeeper_async::Permission;
    stranger.create("/shared", Vec::new(), Mode::Persistent).await.unwrap();
    give_rights(&servers, "/shared", b"me:secret", Some(Permission::READ | Permission::CREATE)).await;
    assert_eq!(stranger.create("/shared/a", Vec::new(), Mode::Persistent).await.unwrap(), Created::Denied);
    assert_eq!(me.create("/shared/a", Vec::new(), Mode::Persistent).await.unwrap(), Created::Made);
    assert_eq!(stranger.set("/shared/a", Vec::new(), 0).await.unwrap(), Written::Denied);
    for version in 0..5 {
        proxy.cut();
        let data = version.to_string().into_bytes();
        let written = bounded("a write after a cut", me.set("/mine/a/b", data, version)).await.unwrap();
        assert_eq!(written, Written::Stored { version: version + 1 });
    }
    me.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_told_also_after_a_cut_and_nothing_between_two_looks_is_missed() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let (reader, writer) =
        (session(&proxy.address().to_string()).await, session(&alone.connect_string()).await);
    let long = Duration::from_secs(60);
    let mut seen = Vec::new();
    for (i, is_cut) in [false, false, true, false, true].into_iter().enumerate() {
        if is_cut {
            proxy.cut();
        }
        writer.create(&format!("/watched/{i}"), Vec::new(), Mode::Persistent).await.unwrap();
        while seen.len() <= i {
            bounded("the news of a child", reader.changed("/watched", long)).await;
            seen = reader.children("/watched").await.unwrap().unwrap();
        }
    }
    // Without news it returns in time, and asks nobody all the while.
    let start = Instant::now();
    let (cores, ()) = cores_used(async {
        while start.elapsed() < Duration::from_secs(1) {
            reader.changed("/watched", Duration::from_millis(500)).await;
        }
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(2) && cores < 0.1, "{:?}, {cores:.2}", start.elapsed());
}

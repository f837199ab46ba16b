//! What befalls a session with one server: cuts, kills, freezes, a dead link.

use std::sync::Arc;

use downspout::zookeeper::{Created, Deleted, Mode, Node, Written};

use super::*;
use crate::harness::Proxy;
use crate::stage::Turn;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_cuts_and_a_quick_restart_with_what_is_ephemeral() {
    let _turn = Turn::take();
    let Some(mut alone) = Alone::start() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let builder = Session::builder(&proxy.address().to_string()).unwrap().timeout(Duration::from_secs(9));
    let one = builder.connect().await.unwrap();
    let id = one.session();
    one.create("/member", b"me".to_vec(), Mode::Ephemeral).await.unwrap();
    for _ in 0..5 {
        proxy.cut();
        assert!(one.get("/member").await.unwrap().is_some());
    }
    alone.server.kill().unwrap();
    let ask = async {
        alone.server.start_again().unwrap();
        one.get("/member").await
    };
    let (cores, found) = cores_used(ask).await;
    assert!(found.unwrap().is_some());
    assert_eq!(one.session(), id);
    assert!(cores < 0.3, "{cores:.2} cores");
    proxy.delay(Duration::from_millis(150));
    assert!(one.get("/member").await.unwrap().is_some());
    proxy.delay(Duration::ZERO);
    one.close().await;
}

/// Calls all the while, and holds each to its bound.
async fn callers(one: &Arc<Session>, until: Instant) {
    let calls = (0..3).map(|i| {
        let one = Arc::clone(one);
        tokio::spawn(async move {
            let path = format!("/calls/{i}");
            while Instant::now() < until {
                let _ = bounded("a read", one.get("/calls")).await;
                let _ = bounded("a create", one.create(&path, Vec::new(), Mode::Persistent)).await;
                let _ = bounded("a write", one.set(&path, b"x".to_vec(), 0)).await;
                let _ = bounded("a delete", one.delete(&path, -1)).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn storm_2440_a_server_frozen_for_longer_than_the_session_hangs_no_call_and_costs_the_session() {
    let _turn = Turn::take();
    let Some(mut alone) = Alone::start() else { return };
    let one = Arc::new(session(&alone.connect_string()).await);
    let id = one.session();
    assert_eq!(one.create("/member", Vec::new(), Mode::Ephemeral).await.unwrap(), Created::Made);
    alone.server.freeze().unwrap();
    let start = Instant::now();
    let (cores, ()) = cores_used(async {
        callers(&one, start + SESSION / 2).await;
        // The session is still its own, but nobody may count on it for much longer.
        callers(&one, start + SESSION * 3 / 2).await;
    })
    .await;
    assert_ne!(one.session(), id, "given up by this side's own clock");
    assert!(one.silence() > SESSION, "{:?}", one.silence());
    assert!(cores < 0.3, "{cores:.2} cores");
    alone.server.resume().unwrap();
    eventually("answers", BOUND, async || one.get("/").await.is_ok()).await;
    assert!(one.silence() < SESSION / 3, "{:?}", one.silence());
    let again = one.session();
    eventually("the end of what the old session left", SESSION * 2, async || {
        let made = bounded("a create", one.create("/member", Vec::new(), Mode::Ephemeral)).await;
        matches!(made, Ok(Created::Made))
    })
    .await;
    assert_eq!(one.session(), again);
    one.close().await;
    // What was asked of it while it was frozen may have become a session that nobody has, and that expires.
    eventually("the end of it", SESSION * 2, async || alone.server.sessions().unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_a_server_that_is_gone_for_longer_than_the_session_is_found_again() {
    let _turn = Turn::take();
    let Some(mut alone) = Alone::start() else { return };
    let one = Arc::new(session(&alone.connect_string()).await);
    one.create("/kept", b"1".to_vec(), Mode::Persistent).await.unwrap();
    let id = one.session();
    alone.server.kill().unwrap();
    let start = Instant::now();
    let (cores, ()) = cores_used(callers(&one, start + SESSION * 3 / 2)).await;
    let error = one.get("/kept").await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(cores < 0.3, "{cores:.2} cores");
    assert_ne!(one.session(), id);
    alone.server.start_again().unwrap();
    let start = Instant::now();
    eventually("the node", Duration::from_secs(3), async || {
        one.get("/kept").await.is_ok_and(|node| node.is_some())
    })
    .await;
    println!("a server that came back was found after {:?}", start.elapsed());
    one.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_link_is_noticed_before_the_server_ends_the_session() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let one = Arc::new(session(&proxy.address().to_string()).await);
    let id = one.session();
    proxy.blackhole(true);
    let start = Instant::now();
    eventually("the loss", SESSION, async || one.session() != id).await;
    println!("a dead link was noticed after {:?}", start.elapsed());
    assert!(one.silence() >= SESSION / 2);
    callers(&one, start + SESSION * 3 / 2).await;
    proxy.blackhole(false);
    eventually("answers", Duration::from_secs(4), async || one.get("/").await.is_ok()).await;
    one.close().await;
    eventually("the end of all its sessions", SESSION * 2, async || {
        alone.server.sessions().unwrap().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_is_lost_is_looked_for_and_told_right() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let one = Arc::new(session(&proxy.address().to_string()).await);
    let other = session(&alone.connect_string()).await;
    // Calls, waits until that is `done` at the server, and then cuts the way on which the answer is.
    async fn lost<T: Send + 'static>(
        proxy: &Proxy,
        call: impl Future<Output = T> + Send + 'static,
        done: impl AsyncFn() -> bool,
    ) -> T {
        proxy.delay(Duration::from_millis(200));
        let call = tokio::spawn(call);
        eventually("the write", Duration::from_secs(2), async || done().await).await;
        assert!(!call.is_finished(), "its answer is still on the way");
        proxy.cut();
        proxy.delay(Duration::ZERO);
        bounded("a write without an answer", call).await.unwrap()
    }
    let by = |one: &Arc<Session>| Arc::clone(one);
    one.create("/a/c", Vec::new(), Mode::Persistent).await.unwrap();

    let (x, o) = (by(&one), &other);
    let call = async move { x.create("/a/b", b"0".to_vec(), Mode::Persistent).await.unwrap() };
    let is_there = async || o.get("/a/b").await.unwrap().is_some();
    assert_eq!(lost(&proxy, call, is_there).await, Created::Made);

    let x = by(&one);
    let call = async move { x.set("/a/b", b"1".to_vec(), 0).await.unwrap() };
    let version = async |version| o.get("/a/b").await.unwrap().is_some_and(|node| node.version >= version);
    assert_eq!(lost(&proxy, call, async || version(1).await).await, Written::Stored { version: 1 });

    // Another one writes before the node can be read again.
    let x = by(&one);
    let call = async move { x.set("/a/b", b"2".to_vec(), 1).await.unwrap() };
    let overtaken = async || {
        version(2).await
            && o.set("/a/b", b"theirs".to_vec(), 2).await.unwrap() == Written::Stored { version: 3 }
    };
    let theirs = Node { data: b"theirs".to_vec(), version: 3, is_ephemeral: false };
    assert_eq!(lost(&proxy, call, overtaken).await, Written::Conflict(Some(theirs)));

    let x = by(&one);
    let call = async move { x.delete("/a/b", 3).await.unwrap() };
    assert_eq!(lost(&proxy, call, async || o.get("/a/b").await.unwrap().is_none()).await, Deleted::Gone);

    // What cannot be found out is an error that says so; nothing is claimed.
    one.create("/a/d", Vec::new(), Mode::Persistent).await.unwrap();
    proxy.mute(true);
    let error = bounded("a write into nothing", one.set("/a/d", b"1".to_vec(), 0)).await.unwrap_err();
    assert!(error.to_string().contains("may be written or not"), "{error}");
    proxy.mute(false);
    one.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_may_be_dropped_at_any_time() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let one = session(&proxy.address().to_string()).await;
    for i in 0..400_u64 {
        if i % 100 == 50 {
            proxy.cut();
        }
        let path = format!("/dropped/{}", i % 7);
        let calls = async {
            let _ = one.create(&path, Vec::new(), Mode::Persistent).await;
            let _ = one.set(&path, b"x".to_vec(), 0).await;
            one.changed(&path, Duration::from_secs(1)).await;
            let _ = one.delete(&path, -1).await;
        };
        let _ = tokio::time::timeout(Duration::from_micros(i * 37 % 9000), calls).await;
    }
    // None of them left anything behind that the next ones have to wait for.
    let start = Instant::now();
    assert!(one.get("/").await.unwrap().is_some());
    assert!(start.elapsed() < SESSION / 3);
    one.close().await;
}

/// Takes connections and closes them at once, as a server without a quorum does.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_each_connection_is_not_hammered() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let one = session(&proxy.address().to_string()).await;
    proxy.refuse(true);
    let before = proxy.refused();
    let start = Instant::now();
    let (cores, ()) = cores_used(tokio::time::sleep(SESSION)).await;
    let rate = (proxy.refused() - before) as f64 / start.elapsed().as_secs_f64();
    println!("{cores:.2} cores, {rate:.0} connections a second");
    assert!(cores < 0.2 && rate < 30.0, "{cores:.2} cores, {rate:.0} connections a second");
    proxy.refuse(false);
    eventually("answers", Duration::from_secs(4), async || one.get("/").await.is_ok()).await;
    one.close().await;
}

//! The flaws of the bare crate `zookeeper-async` that a session guards against. Each still shows itself here: a guard
//! whose flaw is gone can go too. That the guards hold is shown in the files beside this one.
//!
//! None of it is code of this crate, so it runs with `--all` alone, and when that crate changes.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{sleep, timeout};
use zookeeper_async::{
    Acl, CreateMode, WatchedEvent, ZkError, ZkResult, ZkState, ZooKeeper as Bare, ZooKeeperExt,
};

use super::*;
use crate::harness::Proxy;
use crate::stage::Turn;

const RETRY: Duration = Duration::from_millis(100);

async fn bare(servers: &str, session: Duration) -> Arc<Bare> {
    let nobody = |_: WatchedEvent| {};
    Arc::new(Bare::connect_with_retry_time(servers, session, nobody, RETRY).await.unwrap())
}

async fn make(zk: &Bare, path: &str, mode: CreateMode) -> ZkResult<String> {
    zk.create(path, Vec::new(), Acl::open_unsafe().clone(), mode).await
}

fn counting(calls: Arc<AtomicUsize>) -> impl FnOnce(WatchedEvent) {
    move |_| {
        calls.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server and a way to it.
fn started() -> Option<(Alone, Proxy, String)> {
    let alone = Alone::start()?;
    let proxy = Proxy::to(alone.server.address()).unwrap();
    let servers = proxy.address().to_string();
    Some((alone, proxy, servers))
}

/// Runs something on a thread of that name, and gives the share of a core that it takes, while it goes on.
fn cores_of(name: &'static str, spin: impl Future<Output = ()> + Send + 'static) -> f64 {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.spawn(spin);
        let _ = runtime.block_on(stopped);
        runtime.shutdown_background();
    });
    std::thread::sleep(Duration::from_millis(200));
    let (start, before) = (Instant::now(), cpu_of(name));
    std::thread::sleep(Duration::from_secs(1));
    let used = (cpu_of(name) - before).as_secs_f64() / start.elapsed().as_secs_f64();
    stop.send(()).unwrap();
    thread.unwrap().join().unwrap();
    used
}

fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_1_making_parents_in_another_script_panics() {
    let _turn = Turn::take();
    let Some((_alone, _proxy, servers)) = started() else { return };
    let zk = bare(&servers, SESSION).await;
    let task = tokio::spawn(async move { zk.ensure_path("/größe/x").await });
    assert!(task.await.unwrap_err().is_panic());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_2_a_watch_on_the_root_of_a_chroot_is_never_called() {
    let _turn = Turn::take();
    let Some((_alone, _proxy, servers)) = started() else { return };
    let zk = bare(&servers, SESSION).await;
    make(&zk, "/kafka", CreateMode::Persistent).await.unwrap();
    let below = bare(&format!("{servers}/kafka"), SESSION).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    below.get_children_w("/", counting(count)).await.unwrap();
    make(&zk, "/kafka/x", CreateMode::Persistent).await.unwrap();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[test]
#[ignore = "with tests/run --all"]
fn flaw_3_connecting_to_a_closed_port_never_ends_and_spins() {
    let address = closed_port().to_string();
    let cores = cores_of("bare-closed", async move {
        let _ = Bare::connect(&address, SESSION, |_: WatchedEvent| {}).await;
        unreachable!("it gave up");
    });
    println!("connecting to a closed port: {cores:.2} cores");
    assert!(cores > 0.1, "{cores:.2}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_4_a_server_that_never_answers_counts_as_connected() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let zk =
        timeout(Duration::from_millis(500), bare(&mute.local_addr().unwrap().to_string(), SESSION)).await;
    let zk = zk.expect("it waits for a session");
    assert!(timeout(Duration::from_secs(1), zk.exists("/", false)).await.is_err(), "and its calls hang");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_5_a_call_made_while_the_server_is_away_hangs_and_flaw_6_is_done_after_its_caller_gave_up() {
    let _turn = Turn::take();
    let Some((_alone, proxy, servers)) = started() else { return };
    let zk = bare(&servers, SESSION).await;
    make(&zk, "/node", CreateMode::Persistent).await.unwrap();
    proxy.blackhole(true);
    let write = zk.set_data("/node", b"late".to_vec(), Some(0));
    assert!(timeout(SESSION / 3, write).await.is_err(), "it hangs for longer than a session gives it");
    proxy.blackhole(false);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(zk.get_data("/node", false).await.unwrap().0, b"late");

    // The same while there is no connection at all: the client's own queue keeps it.
    proxy.refuse(true);
    let gone = async { zk.get_data("/node", false).await.is_err() };
    let _ = timeout(Duration::from_millis(200), gone).await;
    let write = zk.set_data("/node", b"later".to_vec(), Some(1));
    assert!(!matches!(timeout(SESSION / 3, write).await, Ok(Ok(_))));
    proxy.refuse(false);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_7_a_watch_is_lost_with_its_connection() {
    let _turn = Turn::take();
    let Some((alone, proxy, servers)) = started() else { return };
    let zk = bare(&servers, SESSION).await;
    make(&zk, "/watched", CreateMode::Persistent).await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    zk.get_children_w("/watched", counting(count)).await.unwrap();
    proxy.cut();
    eventually("a connection", BOUND, async || zk.exists("/", false).await.is_ok()).await;
    let other = bare(&alone.connect_string(), SESSION).await;
    make(&other, "/watched/x", CreateMode::Persistent).await.unwrap();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_8_credentials_are_lost_with_their_connection() {
    let _turn = Turn::take();
    let Some((_alone, proxy, servers)) = started() else { return };
    let zk = bare(&servers, SESSION).await;
    zk.add_auth("digest", b"me:secret".to_vec()).await.unwrap();
    zk.create("/mine", Vec::new(), Acl::creator_all().clone(), CreateMode::Persistent).await.unwrap();
    proxy.cut();
    eventually("a connection", BOUND, async || zk.exists("/", false).await.is_ok()).await;
    assert_eq!(zk.get_data("/mine", false).await.unwrap_err(), ZkError::NoAuth);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_9_an_expired_session_is_replaced_without_a_word_to_its_callers() {
    let _turn = Turn::take();
    let Some((alone, proxy, servers)) = started() else { return };
    let zk = bare(&servers, Duration::from_secs(2)).await;
    let expiries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&expiries);
    #[allow(deprecated)] // it is what an expiry is told by
    zk.add_listener(move |state| {
        if state == ZkState::NotConnected {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    make(&zk, "/member", CreateMode::Ephemeral).await.unwrap();
    proxy.refuse(true);
    let server = &alone.server;
    eventually("the end of the session", BOUND, async || server.sessions().unwrap().is_empty()).await;
    proxy.refuse(false);
    let mut errors = Vec::new();
    eventually("an answer", BOUND, async || {
        let answer = zk.exists("/member", false).await;
        errors.extend(answer.as_ref().err().copied());
        answer.is_ok_and(|found| found.is_none())
    })
    .await;
    assert!(!errors.contains(&ZkError::SessionExpired), "{errors:?}");
    assert_eq!(expiries.load(Ordering::SeqCst), 1, "only a listener hears of it");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_10_a_dead_link_is_noticed_after_the_server_has_ended_the_session() {
    let _turn = Turn::take();
    let Some((_alone, proxy, servers)) = started() else { return };
    let zk = bare(&servers, SESSION).await;
    zk.exists("/", false).await.unwrap();
    let (noticed, mut notice) = tokio::sync::mpsc::unbounded_channel();
    zk.add_listener(move |state| noticed.send(state).unwrap_or(()));
    proxy.blackhole(true);
    let start = Instant::now();
    timeout(SESSION * 3, notice.recv()).await.unwrap();
    println!("a dead link was noticed after {:?}", start.elapsed());
    assert!(start.elapsed() > SESSION, "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_11_a_dropped_client_keeps_its_session() {
    let _turn = Turn::take();
    let Some((alone, _proxy, servers)) = started() else { return };
    let session = Duration::from_secs(2);
    let zk = bare(&servers, session).await;
    zk.exists("/", false).await.unwrap();
    drop(zk);
    sleep(session * 2).await;
    assert_eq!(alone.server.sessions().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_12_a_session_below_a_second_answers_nothing() {
    let _turn = Turn::take();
    let Some((_alone, proxy, servers)) = started() else { return };
    let zk = bare(&servers, Duration::from_millis(900)).await;
    let _ = timeout(Duration::from_secs(1), async {
        while zk.exists("/", false).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    println!("{} connections in a second", proxy.accepted());
    assert!(proxy.accepted() > 10, "{}", proxy.accepted());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with tests/run --all"]
async fn flaw_13_a_panic_in_a_watch_ends_the_client_for_good() {
    let _turn = Turn::take();
    let Some((_alone, _proxy, servers)) = started() else { return };
    let zk = bare(&servers, SESSION).await;
    make(&zk, "/watched", CreateMode::Persistent).await.unwrap();
    zk.get_children_w("/watched", |_| panic!("in a watch")).await.unwrap();
    // The client ends with the first event after the panic, and the panic takes a while to be told.
    let end = Instant::now() + Duration::from_secs(20);
    for i in 0.. {
        if matches!(zk.exists("/", false).await, Err(ZkError::ConnectionLoss)) {
            break;
        }
        assert!(Instant::now() < end, "it goes on");
        let _ = make(&zk, &format!("/watched/{i}"), CreateMode::Persistent).await;
        let _ = zk.get_children_w("/watched", |_| {}).await;
        sleep(Duration::from_millis(100)).await;
    }
    for _ in 0..5 {
        assert_eq!(zk.exists("/", false).await.unwrap_err(), ZkError::ConnectionLoss);
        sleep(Duration::from_millis(100)).await;
    }
}

#[test]
#[ignore = "with tests/run --all"]
fn flaw_14_a_server_that_closes_each_connection_is_hammered() {
    let _turn = Turn::take();
    let Some((_alone, proxy, servers)) = started() else { return };
    let proxy = Arc::new(proxy);
    let (ours, start) = (Arc::clone(&proxy), Instant::now());
    let cores = cores_of("bare-refused", async move {
        let zk = bare(&servers, SESSION).await;
        let _ = zk.exists("/", false).await;
        ours.refuse(true);
        std::future::pending().await
    });
    let rate = proxy.refused() as f64 / start.elapsed().as_secs_f64();
    println!("closed connections: {cores:.2} cores, {rate:.0} a second");
    assert!(rate > 500.0, "{rate:.0}");
}

//! The servers and the proxy themselves: what they promise to the tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::harness::{Ensemble, Proxy, ZOOKEEPERS, wait_for};
use crate::stage::Turn;

fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_millis(400)))?;
        stream.write_all(b"ruok")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer == "imok")
}

#[test]
fn a_zookeeper_freezes_dies_and_comes_back_on_its_port() {
    let _turn = Turn::take();
    let Some(mut alone) = Alone::start() else { return };
    let address = alone.server.address();
    assert_eq!(alone.server.role().unwrap(), "standalone");
    assert!(alone.server.sessions().unwrap().is_empty());
    alone.server.freeze().unwrap();
    assert!(!answers(address), "a frozen one says nothing");
    alone.server.resume().unwrap();
    wait_for("the resumed one", Duration::from_secs(5), || Ok(answers(address).then_some(()))).unwrap();
    alone.server.kill().unwrap();
    assert!(!answers(address));
    alone.server.start_again().unwrap();
    assert!(answers(address));
}

#[test]
fn an_ensemble_loses_its_leader_its_quorum_and_finds_both_again() {
    let _turn = Turn::take();
    let Some(java) = java(ZOOKEEPER) else { return };
    let mut ensemble = Ensemble::start(&java).unwrap();
    let first = ensemble.leader().unwrap();
    ensemble.members[first].kill().unwrap();
    let second = ensemble.leader().unwrap();
    assert_ne!(first, second);
    ensemble.members[second].kill().unwrap();
    let last = 3 - first - second;
    wait_for("the end of the quorum", Duration::from_secs(20), || {
        Ok(ensemble.members[last].role().is_none().then_some(()))
    })
    .unwrap();
    ensemble.members[first].start_again().unwrap();
    ensemble.leader().unwrap();
}

#[test]
fn a_proxy_carries_cuts_delays_blocks_and_refuses() {
    let _turn = Turn::take();
    let Some(alone) = Alone::start() else { return };
    let proxy = Proxy::to(alone.server.address()).unwrap();
    assert!(answers(proxy.address()));
    proxy.delay(Duration::from_millis(100));
    let start = Instant::now();
    assert!(answers(proxy.address()));
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    proxy.delay(Duration::ZERO);
    proxy.blackhole(true);
    assert!(!answers(proxy.address()));
    proxy.blackhole(false);
    proxy.refuse(true);
    assert!(!answers(proxy.address()));
    proxy.refuse(false);
    let mut open = TcpStream::connect(proxy.address()).unwrap();
    wait_for("the connection", Duration::from_secs(5), || Ok((proxy.accepted() >= 4).then_some(()))).unwrap();
    proxy.cut();
    open.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(open.read(&mut [0; 8]).unwrap_or(0), 0, "a cut one ends");
    assert!(answers(proxy.address()));
}

#[test]
#[ignore = "with tests/run --all"]
fn every_line_of_zookeeper_starts_alone_and_together() {
    let _turn = Turn::take();
    for release in ZOOKEEPERS {
        let Some(java) = java(release) else { continue };
        assert_eq!(Alone::of(&java).server.role().unwrap(), "standalone", "{release}");
        Ensemble::start(&java).unwrap().leader().unwrap();
    }
}

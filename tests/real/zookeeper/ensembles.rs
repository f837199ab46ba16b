//! What befalls a session with three servers: members that die and freeze, a quorum lost and found.

use downspout::zookeeper::Mode;

use super::*;
use crate::harness::Ensemble;
use crate::stage::Turn;

/// The member that a session of ours is connected to; it is the only one.
fn connected(ensemble: &Ensemble) -> usize {
    let has = |member: &ZooKeeper| {
        member
            .ask("cons")
            .is_ok_and(|text| text.lines().any(|line| line.contains("sid=0x") && !line.contains("sid=0x0,")))
    };
    ensemble.members.iter().position(has).expect("a member with the session")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_with_the_others_when_its_member_dies_and_survives_the_loss_of_the_quorum() {
    let _turn = Turn::take();
    let Some(java) = java(ZOOKEEPER) else { return };
    let mut ensemble = Ensemble::start(&java).unwrap();
    let builder = Session::builder(&ensemble.connect_string()).unwrap().timeout(Duration::from_secs(9));
    let one = builder.connect().await.unwrap();
    let id = one.session();
    one.create("/member", Vec::new(), Mode::Ephemeral).await.unwrap();
    let first = connected(&ensemble);
    ensemble.members[first].kill().unwrap();
    let start = Instant::now();
    eventually("the node, by another member", Duration::from_secs(9), async || {
        one.get("/member").await.is_ok_and(|node| node.is_some())
    })
    .await;
    println!("another member answered after {:?}", start.elapsed());
    assert_eq!(one.session(), id, "with the same session");

    // One of three is no quorum: nothing is answered, nothing hangs, no core spins.
    let second = (0..3).find(|i| *i != first).unwrap();
    ensemble.members[second].kill().unwrap();
    let start = Instant::now();
    let (cores, ()) = cores_used(async {
        while start.elapsed() < Duration::from_secs(8) {
            let call = tokio::time::timeout(Duration::from_secs(7), one.get("/member")).await;
            drop(call.expect("a call without a quorum hangs"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    println!("without a quorum: {cores:.2} cores");
    assert!(cores < 0.2, "{cores:.2} cores");
    ensemble.members[second].start_again().unwrap();
    let start = Instant::now();
    eventually("answers", Duration::from_secs(8), async || one.get("/").await.is_ok()).await;
    println!("after the quorum was back: answers after {:?}", start.elapsed());
    one.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_on_when_its_member_freezes() {
    let _turn = Turn::take();
    let Some(java) = java(ZOOKEEPER) else { return };
    let mut ensemble = Ensemble::start(&java).unwrap();
    let one = session(&ensemble.connect_string()).await;
    one.create("/kept", Vec::new(), Mode::Persistent).await.unwrap();
    let member = connected(&ensemble);
    ensemble.members[member].freeze().unwrap();
    let start = Instant::now();
    eventually("the node, by another member", Duration::from_secs(12), async || {
        bounded("a read", one.get("/kept")).await.is_ok_and(|node| node.is_some())
    })
    .await;
    println!("a frozen member was left after {:?}", start.elapsed());
    ensemble.members[member].resume().unwrap();
    one.close().await;
}

//! Commands as processes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Stage, all};
use crate::exit::Exit;
use crate::spout::exec::crew;
use crate::spout::exec::talk::Phase;

/// Reads each line's first word, the id, and acks it. With sh alone, which writes at once.
const ACKS: &str = "read hello; while read id rest; do echo \"ack $id\"; done";

fn sh(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

impl Stage {
    /// Runs these until all work is done; an outcome that does not come fails the test.
    async fn run(&self, workers: usize, script: &str) {
        self.close();
        let run = crew::run(Arc::clone(&self.shared), sh(script), workers);
        tokio::time::timeout(Duration::from_secs(30), run).await.expect("it hangs").unwrap();
    }

    fn deaths(&self) -> u64 {
        self.shared.counts.deaths.load(Ordering::Relaxed)
    }
}

/// Waits until a process is gone.
async fn gone(pid: &Path) {
    let pid = std::fs::read_to_string(pid).unwrap();
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    // One that nobody has taken notice of yet is dead all the same.
    let runs = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let end = Instant::now() + Duration::from_secs(10);
    while runs() {
        assert!(Instant::now() < end, "{pid} still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn several_commands_share_the_work() {
    let stage = Stage::new(1, 0..100);
    stage.run(3, ACKS).await;
    let mut outcomes = stage.outcomes();
    outcomes.sort();
    assert_eq!(outcomes, all(&(0..100).collect::<Vec<_>>(), "acked"));
    assert_eq!((stage.deaths(), stage.unknown()), (0, (0, 0)));
}

#[tokio::test]
async fn a_command_that_dies_is_started_again_and_its_record_is_released() {
    let stage = Stage::new(1, 0..3);
    // It dies with its second record, each time.
    stage.run(1, "read hello; read id rest; echo \"ack $id\"; read id rest; exit 3").await;
    assert_eq!(stage.outcomes(), [(0, "acked".into()), (1, "released".into()), (2, "acked".into())]);
    assert_eq!(stage.deaths(), 1);
}

#[tokio::test]
async fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let mut stage = Stage::new(1, 0..1);
    Arc::get_mut(&mut stage.shared).unwrap().terms.timeout = Duration::from_millis(300);
    stage.close();
    // A child of the command that does not care about SIGTERM.
    // The second one ends with its input.
    let script =
        "if [ -e PID ]; then exec cat; fi; (trap '' TERM; while :; do sleep 0.1; done) & echo $! > PID; wait";
    stage.run(1, &script.replace("PID", &pid.display().to_string())).await;
    assert_eq!(stage.outcomes(), all(&[0], "released"));
    assert_eq!(stage.shared.counts.hung.load(Ordering::Relaxed), 1);
    gone(&pid).await;
}

#[tokio::test]
async fn the_end_of_it_all_does_not_wait_for_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let stage = Stage::new(1, 0..1);
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.1; done", pid.display());
    let run = tokio::spawn(crew::run(Arc::clone(&stage.shared), sh(&script), 1));
    while !pid.exists() || std::fs::read_to_string(&pid).unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let begun = Instant::now();
    stage.phase.send(Phase::Over).unwrap();
    run.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(1_500), "{:?}", begun.elapsed());
    gone(&pid).await;
    assert_eq!(stage.outcomes(), all(&[0], "released"));
}

#[tokio::test]
async fn a_command_gets_time_to_end_by_itself_once_all_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let stage = Stage::new(1, 0..1);
    stage.run(1, &format!("{ACKS}; sleep 0.2; echo yes > {}", done.display())).await;
    assert_eq!(std::fs::read_to_string(done).unwrap(), "yes\n");
}

#[tokio::test]
async fn a_command_that_cannot_be_run_is_wrong_usage_at_once() {
    for program in [vec!["/no/such/program".to_owned()], sh("no-such-command-here"), sh("/")] {
        let stage = Stage::new(1, 0..1);
        let why = crew::run(Arc::clone(&stage.shared), program.clone(), 1).await.unwrap_err();
        assert_eq!(why.exit, Exit::Usage, "{program:?}");
        let message = why.message.unwrap();
        assert!(message.contains(&program[program.len() - 1]), "{message}");
    }
}

#[tokio::test]
async fn one_that_floods_does_not_keep_others_from_their_work() {
    let stage = Stage::new(1, 0..20);
    stage.close();
    // The first to come floods and never reads; the other works.
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let script = format!("if mkdir {} 2>/dev/null; then exec yes; fi; {ACKS}", lock.display());
    let shared = Arc::clone(&stage.shared);
    let run = tokio::spawn(crew::run(shared, sh(&script), 2));
    let outcomes = tokio::time::timeout(Duration::from_secs(20), stage.until(19)).await.expect("it is kept");
    assert!(outcomes.iter().all(|(_, outcome)| outcome == "acked"), "{outcomes:?}");
    let end = Instant::now() + Duration::from_secs(10);
    while stage.unknown().0 == 0 {
        assert!(Instant::now() < end, "it does not flood");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stage.phase.send(Phase::Over).unwrap();
    run.await.unwrap().unwrap();
    assert_eq!(stage.outcomes().len(), 20);
}

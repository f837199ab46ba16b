//! Signals, what they leave, and the exit codes.

use std::time::{Duration, Instant};

use super::{ACKS, Said, clicks, finished, kill, numbers, over, run, script, spout_with, until};

/// Acks all records but those of partition 0, which it keeps for ever.
const KEEPS: &str = "read hello; while read -r line; do ID; case $id in clicks/0/*) echo kept >&2;; *) echo \"ack $id\";; esac; done";

#[test]
fn a_signal_lets_commands_finish_what_they_have() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let broker = clicks(1, 5);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("done");
        let text = format!(
            "read hello; while read -r line; do ID; echo got >&2; sleep 0.5; echo 1 >> {}; echo \"ack $id\"; done",
            file.display()
        );
        let mut child = spout_with(&over(&broker, &["--exec", &script(&text)])).spawn().unwrap();
        let mut said = Said::of(&mut child);
        said.until("got");
        kill(child.id(), signal);
        let run = finished(child);
        assert_eq!(run.code, code);
        // The one that it had is done, and no other was begun.
        assert_eq!(numbers(&file), [(1, 1)].into());
        let rest = said.rest();
        assert!(rest.contains("closing: waiting at most 20s") && !rest.contains("not finished"), "{rest}");
    }
}

#[test]
fn what_is_not_finished_in_time_is_said_and_is_exit_code_4() {
    let broker = clicks(2, 6);
    let more = ["--concurrency", "9", "--drain-timeout", "300ms", "--exec", &script(KEEPS)];
    let mut child = spout_with(&over(&broker, &more)).spawn().unwrap();
    let mut said = Said::of(&mut child);
    (0..3).for_each(|_| drop(said.until("kept")));
    kill(child.id(), "-TERM");
    assert_eq!(finished(child).code, 4);
    let rest = said.rest();
    assert!(rest.contains("clicks/0: 3 records were not finished"), "{rest}");
    assert!(!rest.contains("clicks/1:"), "{rest}");
}

#[test]
fn a_second_signal_commits_what_is_done_and_leaves() {
    let broker = clicks(2, 6);
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().display());
    let keeps = script(KEEPS);
    let more =
        ["--id", "x", "--store", &store, "--concurrency", "9", "--commit-interval", "1h", "--exec", &keeps];
    let mut child = spout_with(&over(&broker, &more)).spawn().unwrap();
    let mut said = Said::of(&mut child);
    (0..3).for_each(|_| drop(said.until("kept")));
    kill(child.id(), "-INT");
    said.until("closing");
    let begun = Instant::now();
    kill(child.id(), "-INT");
    let run = finished(child);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(run.code, 4);
    // What partition 1 had is kept; what partition 0 had comes again.
    let rest = super::run(&broker, &["--id", "x", "--store", &store, "--ack-on-write", "-e"]);
    let offsets: Vec<_> =
        rest.lines().iter().map(|line| (line["partition"].clone(), line["offset"].clone())).collect();
    assert_eq!(offsets, [(0.into(), 0.into()), (0.into(), 1.into()), (0.into(), 2.into())]);
}

#[test]
fn no_command_is_left_behind() {
    let broker = clicks(1, 1);
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let text =
        format!("trap '' TERM; sleep 1000 & echo $! > {}; echo on >&2; wait; wait; wait", pid.display());
    for signals in [1, 2] {
        let mut child =
            spout_with(&over(&broker, &["--drain-timeout", "100ms", "--exec", &text])).spawn().unwrap();
        let mut said = Said::of(&mut child);
        said.until("on");
        (0..signals).for_each(|_| kill(child.id(), "-TERM"));
        let code = finished(child).code;
        assert!(code == 4 || code == 143, "{code}");
        let stat = format!("/proc/{}/stat", std::fs::read_to_string(&pid).unwrap().trim());
        until("it is gone", || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    }
}

#[test]
fn a_signal_while_nothing_answers_ends_it_at_once() {
    // Nobody listens there, and nobody refuses.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut child = spout_with(&["-b", &address, "-t", "x"]).spawn().unwrap();
    let (stream, _) = listener.accept().unwrap();
    let begun = Instant::now();
    kill(child.id(), "-INT");
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130));
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(stream);
}

#[test]
fn two_spouts_with_one_id_on_one_store_are_one_too_many() {
    let broker = clicks(1, 1);
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().display());
    let acks = script(&ACKS.replace("echo", "echo done >&2; echo"));
    let more = ["--id", "x", "--store", &store, "--exec", &acks];
    let mut child = spout_with(&over(&broker, &more)).spawn().unwrap();
    Said::of(&mut child).until("done");
    let second = run(&broker, &more);
    assert_eq!((second.code, second.out.as_str()), (6, ""));
    assert!(second.err.contains("another process"), "{}", second.err);
    kill(child.id(), "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    // And then it may.
    assert_eq!(run(&broker, &[&more[..], &["-e"]].concat()).code, 0);
}

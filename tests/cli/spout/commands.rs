//! `--exec`: commands of every kind.

use std::path::Path;

use super::{ACKS, append, clicks, each_once, finished, kill, numbers, over, run, script, spout_with, until};

/// A script that writes the value of each record that it acks to a file.
fn noting(file: &Path, text: &str) -> String {
    let value = "value=${line#*\\\"value\\\":\\\"}; value=${value%%\\\"*};";
    script(text).replace("VALUE;", value).replace("FILE", &file.display().to_string())
}

const NOTES: &str =
    "read hello; while read -r line; do ID; VALUE; echo $value >> FILE; echo \"ack $id\"; done";

#[test]
fn several_commands_share_the_records_and_each_is_done_once() {
    let broker = clicks(3, 500);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    let run = run(&broker, &["-e", "--workers", "3", "--concurrency", "7", "--exec", &noting(&file, NOTES)]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
    assert_eq!(numbers(&file), each_once(500));
}

#[test]
fn a_program_behind_dashes_runs_without_a_shell() {
    let broker = clicks(1, 3);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hello world; $(exit 1)");
    let program = folder.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\necho \"$1\" > \"$2\"\n{}", script(ACKS))).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let words = [program.to_str().unwrap(), "$HOME *", file.to_str().unwrap()];
    let run = run(&broker, &[&["-e", "--"], &words[..]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "$HOME *\n");
}

#[test]
fn answers_may_come_out_of_order() {
    let broker = clicks(1, 60);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    // Three at a time, answered for from the last to the first.
    let text = "read hello; while read -r line; do ID; one=$id; read -r line; ID; two=$id; read -r line; ID; VALUE; \
                echo $value >> FILE; echo \"ack $id\"; echo \"ack $two\"; echo \"ack $one\"; done";
    let run = run(&broker, &["-e", "--concurrency", "3", "--exec", &noting(&file, text)]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let thirds: Vec<i32> = (0..20).map(|number| 3 * number + 2).collect();
    assert_eq!(numbers(&file).into_keys().collect::<Vec<_>>(), thirds);
}

#[test]
fn what_fails_comes_again_and_the_end_waits_for_it() {
    let broker = clicks(2, 40);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    let text = "read hello; while read -r line; do ID; VALUE; case $id in \
                */[13579]/1/1) echo \"fail $id odd offsets fail at first\";; \
                *) echo $value >> FILE; echo \"ack $id\";; esac; done";
    let run = run(&broker, &["-e", "--retry-first", "300ms", "--exec", &noting(&file, text)]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(numbers(&file), each_once(40));
}

#[test]
fn a_command_that_dies_or_hangs_loses_nothing() {
    for (text, said) in [
        ("echo $value >> FILE; echo \"ack $id\"; exit 1", "ended (exit status: 1)"),
        (
            "if [ -e FILE.x ]; then echo $value >> FILE; echo \"ack $id\"; else : > FILE.x; sleep 1000; fi",
            "was ended",
        ),
        (
            "if [ -e FILE.x ]; then echo $value >> FILE; echo \"ack $id\"; else : > FILE.x; kill -9 $$; fi",
            "signal: 9",
        ),
        (
            "if [ -e FILE.x ]; then echo $value >> FILE; echo \"ack $id\"; else : > FILE.x; exec <&-; sleep 1000; fi",
            "was ended",
        ),
        (
            "if [ -e FILE.x ]; then echo $value >> FILE; echo \"ack $id\"; else : > FILE.x; exec >&-; sleep 1000; fi",
            "ended (signal: 9",
        ),
    ] {
        let broker = clicks(1, 5);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("done");
        let text = noting(&file, &format!("read hello; while read -r line; do ID; VALUE; {text}; done"));
        let run = run(&broker, &["-e", "--exec-timeout", "500ms", "--exec", &text]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(numbers(&file), each_once(5), "{text}");
        assert!(run.err.contains(said), "{said}: {}", run.err);
    }
}

#[test]
fn a_record_that_kills_commands_goes_the_way_of_on_exhausted() {
    let broker = clicks(1, 6);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    let text = "read hello; while read -r line; do ID; VALUE; [ $value = 3 ] && kill -9 $$; echo $value >> FILE; echo \"ack $id\"; done";
    let limits = ["--retry-limit", "1", "--on-exhausted", "skip", "--concurrency", "3", "--log", "off"];
    let run = run(&broker, &[&["-e", "--exec", &noting(&file, text)], &limits[..]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let done: Vec<i32> = numbers(&file).into_keys().collect();
    assert_eq!(done, [0, 1, 2, 4, 5]);
}

#[test]
fn rubbish_is_said_and_counts_for_nothing() {
    let broker = clicks(1, 3);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    let text = "read hello; echo starting; while read -r line; do ID; VALUE; echo \"ACK $id\"; echo \"ack $id.\"; \
                echo $value >> FILE; echo \"ack $id\"; done";
    let run = run(&broker, &["-e", "--exec", &noting(&file, text)]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(numbers(&file), each_once(3));
    assert!(run.err.contains("neither ack ID nor fail ID: \"starting\""), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
}

#[test]
fn floods_and_deafness_of_one_command_are_its_own_affair() {
    let broker = clicks(2, 100);
    let folder = tempfile::tempdir().unwrap();
    let (file, lock) = (folder.path().join("done"), folder.path().join("lock"));
    let lock = lock.display();
    let text = format!("if mkdir {lock} 2>/dev/null; then exec yes; fi; {}", noting(&file, NOTES));
    let run = run(&broker, &["-e", "--workers", "2", "--exec-timeout", "1s", "--exec", &text]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(numbers(&file), each_once(100));
}

#[test]
fn a_flood_takes_no_memory() {
    let broker = clicks(1, 1);
    // Lines, and one line without an end.
    for flood in ["exec yes", "exec tr '\\0' x < /dev/zero"] {
        let mut child = spout_with(&over(&broker, &["--log", "off", "--exec", flood])).spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let resident = || -> u64 {
            let text = std::fs::read_to_string(&status).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        super::Said::of(&mut child).until("neither ack ID nor fail ID");
        // What a flood of a second would take is a gigabyte.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let kib = resident();
        kill(child.id(), "-TERM");
        kill(child.id(), "-TERM");
        let code = finished(child).code;
        assert!(kib < 64 << 10, "{flood}: {kib} KiB");
        assert_eq!(code, 4);
    }
}

#[test]
fn standard_error_of_a_command_is_our_own() {
    let broker = clicks(1, 1);
    let run = run(&broker, &["-e", "--exec", &script(&ACKS.replace("echo", "echo \"did $id\" >&2; echo"))]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", "did clicks/0/0/1/1\n"));
}

#[test]
fn a_command_that_cannot_be_run_is_wrong_usage() {
    let broker = clicks(1, 1);
    let run = run(&broker, &["--", "/no/such/program"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("cannot start \"/no/such/program\": No such file"), "{}", run.err);
}

#[test]
fn a_partition_that_stopped_does_not_keep_others_from_their_end() {
    let broker = clicks(2, 20);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    let text = "read hello; while read -r line; do ID; VALUE; case $id in clicks/1/3/*) echo \"fail $id no\";; \
                *) echo $value >> FILE; echo \"ack $id\";; esac; done";
    let limits = ["--retry-limit", "2", "--retry-first", "1ms", "--on-exhausted", "stop"];
    let run = run(&broker, &[&["-e", "--exec", &noting(&file, text)], &limits[..]].concat());
    assert_eq!(run.code, 5, "{}", run.err);
    assert!(run.err.contains("clicks/1 stopped: "), "{}", run.err);
    assert!((0..10).all(|number| numbers(&file).contains_key(&(2 * number))), "{:?}", numbers(&file));
}

#[test]
fn a_kill_loses_nothing_and_repeats_only_what_was_not_committed() {
    let broker = clicks(2, 400);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    let store = format!("file:{}", folder.path().join("store").display());
    let text = noting(&file, &NOTES.replace("echo $value", "sleep 0.005; echo $value"));
    let more = ["--id", "x", "--store", &store, "--commit-interval", "20ms", "--exec", &text];
    for done in [100, 200, 300] {
        let mut child = spout_with(&over(&broker, &more)).spawn().unwrap();
        until("so many are done", || numbers(&file).len() >= done);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    append(&broker, 0, 400..401);
    let run = finished(spout_with(&over(&broker, &[&more[..], &["-e"]].concat())).spawn().unwrap());
    assert_eq!(run.code, 0, "{}", run.err);
    let done = numbers(&file);
    assert_eq!(done.len(), 401);
    let repeats = done.values().sum::<usize>() - 401;
    assert!(repeats < 100, "{repeats}");
}

//! `downspout demo`: the story of a spout; and with --read, what it writes into a broker of any release.

use downspout::testing::Release;

use super::downspout;

#[test]
fn nothing_is_lost_through_failures_a_leader_move_and_a_crash() {
    // The newest release, and one without anything: no versions, no timestamps, no offsets of groups.
    std::thread::scope(|scope| {
        for release in [Release::LATEST.name(), "0.8.0"] {
            scope.spawn(move || {
                let run = downspout(&["demo", "--release", release, "--records", "3000"], b"");
                assert_eq!((run.code, run.err.as_str()), (0, ""), "{release}: {}", run.out);
                let count = |what: &str| -> u32 {
                    let line = run.out.lines().find_map(|line| line.strip_prefix(what));
                    line.unwrap_or_else(|| panic!("{what}: {}", run.out))
                        .trim()
                        .replace(',', "")
                        .parse()
                        .unwrap()
                };
                assert_eq!((count("produced "), count("lost ")), (3_000, 0));
                let (failed, again) =
                    (count("failed and retried "), count("delivered again after the crash "));
                assert!(failed >= 75 && again > 0, "{}", run.out);
                assert!(count("delivered  ") >= 3_000 + failed, "{}", run.out);
                for step in [
                    "leaders move",
                    "crash",
                    "a new spout goes on",
                    "closed: the positions kept say that 3,000 are done",
                ] {
                    assert!(run.out.contains(step), "{step}: {}", run.out);
                }
            });
        }
    });
}

#[test]
fn everything_comes_back_from_every_release() {
    for release in Release::ALL {
        let run = downspout(&["demo", "--read", "--release", release.name()], b"");
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{release}");
        assert!(run.out.contains("All 10 records came as they were written"), "{release}: {}", run.out);
    }
}

#[test]
fn a_line_a_record_and_a_line_a_batch() {
    let run = downspout(&["demo", "--read"], b"");
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(
        lines.contains(&"clicks/0 @0  09:00:00  alice → /  (trace=4bf92f35, device=phone)"),
        "{}",
        run.out
    );
    assert!(lines.contains(&"clicks/1 @2  09:00:06  bob → null"), "{}", run.out);
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        assert!(lines.iter().any(|line| line.contains(codec) && line.ends_with("batch, magic 2")), "{codec}");
    }
}

#[test]
fn an_unknown_release_is_wrong_usage_and_the_known_ones_are_named() {
    let run = downspout(&["demo", "--release", "0.7"], b"");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("0.8.2.2") && run.err.contains("4.4.0"), "{}", run.err);
}

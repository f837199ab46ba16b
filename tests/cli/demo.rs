//! `downspout demo`: what it writes into a broker of any release comes back.

use downspout::testing::Release;

use super::downspout;

#[test]
fn everything_comes_back_from_every_release() {
    for release in Release::ALL {
        let run = downspout(&["demo", "--release", release.name()], b"");
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{release}");
        assert!(run.out.contains("All 10 records came as they were written"), "{release}: {}", run.out);
    }
}

#[test]
fn a_line_a_record_and_a_line_a_batch() {
    let run = downspout(&["demo"], b"");
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

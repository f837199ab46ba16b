//! Wrong usage: exit code 2 and a message that says what would be right.

use crate::downspout;

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_right() {
    let table: &[(&[&str], &str)] = &[
        (&[], "Usage: downspout <COMMAND>"),
        (&["decodee"], "'decode'"),
        (&["decode"], "Usage: downspout decode <COMMAND>"),
        (&["decode", "response", "--api", "Fetch"], "--version <N>"),
        (&["decode", "response", "--api", "fecth", "--version", "4"], "Did you mean Fetch?"),
        (&["decode", "response", "--api", "Fetch", "--version", "99"], "Fetch has no version 99"),
        (&["decode", "records", "/no/such/file"], "downspout: cannot read /no/such/file: No such file"),
        (&["consume", "-t", "t"], "no brokers: say where one listens with --brokers host:port (-b)"),
        (&["consume", "-b", "h:x", "-t", "t"], "the port is a number from 1 to 65535"),
        (&["consume", "-b", "h"], "--topic <TOPIC>"),
        (&["consume", "-b", "h", "-t", "t", "-f", "%z"], "--format: there is no token %z"),
        (&["consume", "-b", "h", "-t", "t", "-o", "begin"], "expected beginning, end, N, -N, s@MS or e@MS"),
        (&["consume", "-b", "h", "-t", "t", "-J", "--json"], "cannot be used with"),
        (&["consume", "-b", "h", "-t", "t", "-X", "fetch.max.byte=1"], "Did you mean fetch.max.bytes"),
        (&["consume", "-b", "h", "-t", "t", "--on-corrupt", "ignore"], "[possible values: stop, skip, raw]"),
        (
            &["consume", "-b", "h", "-t", "t", "--reset", "x"],
            "[possible values: fail, earliest, latest, nearest]",
        ),
        (&["consume", "-b", "h", "-t", "t", "--memory", "0"], "expected a number of bytes, as in 64M"),
        (&["consume", "-b", "h", "-t", "t", "--by-partition"], "--exit-at-end"),
        (&["consume", "-b", "h", "-t", "^("], "'^(' for '--topic <TOPIC>'"),
        (&["consume", "-b", "h", "-t", "t", "--isolation", "x"], "read_committed or read_uncommitted"),
        (&["produce", "-b", "h", "-t", "t", "-z", "bzip2"], "no codec is called \"bzip2\""),
        (&["produce", "-b", "h", "-t", "t", "--acks", "2"], "expected all, 1 or 0"),
        (&["produce", "-b", "h", "-t", "t", "-l", "/no/such"], "cannot read /no/such: No such file"),
        (&["offsets", "-b", "h", "-t", "t", "--at", "now"], "expected earliest, latest, max-timestamp"),
        (&["broker", "--listen", "9092"], "expected host:port"),
        (&["broker", "--topic", "t:0"], "expected NAME or NAME:PARTITIONS"),
        (&["broker", "--topic", "a b"], "a topic's name holds letters"),
        (&["broker", "--record-size", "5"], "--endless <NAME[:PARTITIONS]>"),
        (
            &["broker", "--release", "0.8", "--endless", "t", "-z", "gzip"],
            "no compressed messages before 0.10",
        ),
        (&["decode", "records", "--input", "octal"], "[possible values: auto, hex, binary]"),
    ];
    for (args, message) in table {
        let run = downspout(args, b"");
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(message), "{args:?}: {}", run.err);
        assert_eq!(run.out, "", "{args:?}");
    }
}

#[test]
fn the_help_tells_the_exit_codes() {
    let run = downspout(&["--help"], b"");
    assert_eq!(run.code, 0);
    for line in ["0    all well", "2    wrong usage", "130  interrupted"] {
        assert!(run.out.contains(line), "{}", run.out);
    }
}

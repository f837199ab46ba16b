//! Wrong usage: exit code 2 and a message that says what would be right.

use crate::downspout;

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_right() {
    let table: &[(&[&str], &str)] = &[
        (&[], "Usage: downspout <COMMAND>"),
        (&["decodee"], "a similar subcommand exists: 'decode'"),
        (&["decode"], "Usage: downspout decode <COMMAND>"),
        (&["decode", "response", "--api", "Fetch"], "--version <N>"),
        (&["decode", "response", "--api", "fecth", "--version", "4"], "Did you mean Fetch?"),
        (&["decode", "response", "--api", "Fetch", "--version", "99"], "Fetch has no version 99"),
        (&["decode", "records", "/no/such/file"], "downspout: cannot read /no/such/file: No such file"),
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

//! `produce` against the embedded broker, read back with `consume`.

use downspout::protocol::{ApiKey, ErrorCode};
use downspout::testing::{EmbeddedBroker, Fault, Release};
use serde_json::json;

use crate::{Run, downspout};

fn start(release: Release, partitions: i32) -> EmbeddedBroker {
    EmbeddedBroker::builder().release(release).topic("clicks", partitions).start().unwrap()
}

fn produce(broker: &EmbeddedBroker, args: &[&str], input: &[u8]) -> Run {
    let mut all = vec!["produce", "-b", broker.addr(), "-t", "clicks"];
    all.extend(args);
    downspout(&all, input)
}

fn consume(broker: &EmbeddedBroker, args: &[&str]) -> String {
    let mut all = vec!["consume", "-b", broker.addr(), "-t", "clicks", "-e"];
    all.extend(args);
    let run = downspout(&all, b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    run.out
}

#[test]
fn lines_come_back_from_every_era_and_codec() {
    for release in
        [Release::V0_8_0, Release::V0_9_0, Release::V0_10_2, Release::V0_11_0, Release::V2_8, Release::V4_4]
    {
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            // Finding out that a broker is 0.9 takes three seconds: once is enough.
            if release == Release::V0_9_0 && codec != "snappy" {
                continue;
            }
            if codec == "zstd" && release < Release::V2_1 || codec == "lz4" && release < Release::V0_8_2 {
                continue;
            }
            let broker = start(release, 1);
            let run = produce(&broker, &["-z", codec, "--json"], b"a\nb\n\nc");
            assert_eq!((run.code, run.err.as_str()), (0, ""), "{release} {codec}");
            let sent =
                json!({"topic": "clicks", "partition": 0, "first_offset": 0, "last_offset": 3, "records": 4});
            assert_eq!(run.lines(), [sent], "{release} {codec}");
            assert_eq!(consume(&broker, &["-f", "%o%s "]), "0a 1b 2 3c ", "{release} {codec}");
        }
    }
}

#[test]
fn keys_null_headers_and_count() {
    let broker = start(Release::V4_4, 1);
    let run = produce(
        &broker,
        &["-K", ":", "-k", "d", "-Z", "-H", "h=1", "-H", "n", "-c", "3"],
        b"k:v\n:\nx\nleft out\n",
    );
    assert_eq!((run.code, run.err.as_str(), run.out.as_str()), (0, "", ""));
    assert_eq!(
        consume(&broker, &["-Z", "-f", "%k=%s %h|"]),
        "k=v h=1,n=NULL|NULL=NULL h=1,n=NULL|d=x h=1,n=NULL|"
    );
}

#[test]
fn partitions_by_number_by_key_and_by_turns() {
    let broker = start(Release::V4_4, 3);
    assert_eq!(produce(&broker, &["-p", "2"], b"a\nb\n").code, 0);
    assert_eq!(consume(&broker, &["-p", "2", "-D", " "]), "a b ");
    assert_eq!(produce(&broker, &[], b"x\ny\nz\n").code, 0);
    let mut lines: Vec<String> = consume(&broker, &["-f", "%p %s\\n"]).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0 x", "1 y", "2 a", "2 b", "2 z"]);
    // murmur2("21") & 0x7fffffff modulo 3 is 2, as the Java producer has it.
    assert_eq!(produce(&broker, &["-k", "21"], b"k\n").code, 0);
    let partition = ((-973_932_308_i32 & 0x7fff_ffff) % 3).to_string();
    assert!(consume(&broker, &["-p", &partition, "-f", "%k%s "]).contains("21k "));
    let run = produce(&broker, &["-p", "9"], b"");
    assert_eq!(
        (run.code, run.err.as_str()),
        (3, "downspout: clicks has no partition 9: it has 3, numbered from 0\n")
    );
}

#[test]
fn the_format_on_the_wire_can_be_chosen() {
    let broker = start(Release::V2_8, 1);
    for format in ["0", "1", "2"] {
        let run =
            produce(&broker, &["--message-format", format, "-z", "gzip"], format!("f{format}\n").as_bytes());
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{format}");
    }
    assert_eq!(consume(&broker, &["-D", " "]), "f0 f1 f2 ");
    let newest = start(Release::V4_4, 1);
    let run = produce(&newest, &["--message-format", "0"], b"a\n");
    assert_eq!(run.code, 3);
    assert!(run.err.contains("this client speaks 0–1, the broker 3–13"), "{}", run.err);
    let old = start(Release::V0_10_0, 1);
    let run = produce(&old, &["-H", "h=1"], b"a\n");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("headers, which need message format 2"), "{}", run.err);
}

#[test]
fn errors_that_pass_are_tried_again_and_others_are_told() {
    let broker = start(Release::V4_4, 1);
    broker.inject(Fault::error(ErrorCode::NOT_ENOUGH_REPLICAS).on(ApiKey::PRODUCE).times(2));
    let run = produce(&broker, &[], b"a\nb\n");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(consume(&broker, &["-D", " "]), "a b ");
    broker.inject(Fault::error(ErrorCode::TOPIC_AUTHORIZATION_FAILED).on(ApiKey::PRODUCE).once());
    let run = produce(&broker, &[], b"c\n");
    assert_eq!(run.code, 3);
    assert!(run.err.contains("TOPIC_AUTHORIZATION_FAILED"), "{}", run.err);
    assert!(run.err.contains("At least 1 records were not sent"), "{}", run.err);
    let run = downspout(&["produce", "-b", broker.addr(), "-t", "click"], b"a\n");
    assert_eq!(run.code, 3);
    assert!(run.err.contains("did you mean clicks?"), "{}", run.err);
}

#[test]
fn a_batch_that_is_too_large_goes_in_halves_and_a_record_that_is_is_told() {
    let broker = start(Release::V4_4, 1);
    broker.inject(Fault::error(ErrorCode::MESSAGE_TOO_LARGE).on(ApiKey::PRODUCE).once());
    let run = produce(&broker, &["--json"], b"a\nb\nc\n");
    assert_eq!((run.code, run.err.as_str(), run.lines().len()), (0, "", 2));
    assert_eq!(consume(&broker, &["-D", " "]), "a b c ");
    broker.inject(Fault::error(ErrorCode::MESSAGE_TOO_LARGE).on(ApiKey::PRODUCE).once());
    let run = produce(&broker, &[], b"d\n");
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("clicks/0: a record of 1 bytes was refused: MESSAGE_TOO_LARGE (10)"),
        "{}",
        run.err
    );
}

#[test]
fn nobody_acknowledges_where_nobody_is_asked_to() {
    let broker = start(Release::V4_4, 1);
    let run = produce(&broker, &["--acks", "0", "--json"], b"a\n");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(run.lines()[0]["first_offset"], json!(null));
}

#[test]
fn many_lines_pass_in_large_batches() {
    let broker = start(Release::V4_4, 2);
    let input: String = (0..200_000).map(|i| format!("{i}\n")).collect();
    let run = produce(&broker, &["-z", "lz4"], input.as_bytes());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(consume(&broker, &[]).lines().count(), 200_000);
    assert!(broker.request_count(ApiKey::PRODUCE) < 100, "{}", broker.request_count(ApiKey::PRODUCE));
}

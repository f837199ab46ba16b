//! kafka-python and confluent-kafka (librdkafka), in a virtual environment of their own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::harness::{LeftOut, cache_root};
use super::{broker, codecs, left_out, values};

const PACKAGES: [&str; 5] = [
    "kafka-python==3.0.12",
    "confluent-kafka==2.16.1",
    "python-snappy==0.7.3",
    "lz4==4.4.5",
    "zstandard==0.25.0",
];

#[test]
fn kafka_python_reads_back_what_it_wrote() {
    check("kafka_python_client", "4.4");
}

#[test]
#[ignore = "with tests/run --all"]
fn kafka_python_on_other_releases() {
    ["0.11", "1.1", "2.1", "2.8", "3.9"].iter().for_each(|release| check("kafka_python_client", release));
}

#[test]
fn librdkafka_reads_back_what_it_wrote() {
    check("confluent_client", "4.4");
}

#[test]
#[ignore = "with tests/run --all"]
fn kip_848_librdkafka_in_a_group_that_the_broker_assigns() {
    ["4.0", "4.4"].iter().for_each(|release| check_with("confluent_client", release, "consumer"));
}

#[test]
#[ignore = "with tests/run --all"]
fn librdkafka_on_other_releases() {
    let releases = ["0.10.0", "0.10.2", "0.11", "1.1", "2.1", "2.8", "3.9"];
    releases.iter().for_each(|release| check("confluent_client", release));
}

/// The script writes ten records in each codec, reads all of them as a member of a group, and fails if
/// they differ.
fn check(script: &str, release: &str) {
    check_with(script, release, "");
}

/// As `check`, in a group of this protocol.
fn check_with(script: &str, release: &str, protocol: &str) {
    let python = match environment() {
        Ok(python) => python,
        Err(why) => return left_out(&format!("{script} on {release}"), &why),
    };
    let broker = broker(release.parse().unwrap());
    let known = match broker.with(|cluster| cluster.release()) {
        old if old.magic() < 2 => vec!["none", "gzip", "snappy", "lz4"],
        old if old < downspout::testing::Release::V2_1 => vec!["none", "gzip", "snappy", "lz4"],
        _ => vec!["none", "gzip", "snappy", "lz4", "zstd"],
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/foreign/python/{script}.py"));
    let output = Command::new(python)
        .env("GROUP_PROTOCOL", protocol)
        .arg(path)
        .arg(broker.addr())
        .args(&known)
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script} on {release}: {said}");
    let expected: Vec<String> = known
        .iter()
        .flat_map(|codec| (0..10).map(move |i| format!("{codec} {i} {}", "x".repeat(100))))
        .collect();
    assert_eq!(values(&broker, "python"), expected, "{script} on {release}");
    assert_eq!(codecs(&broker, "python"), known, "{script} on {release}");
    let committed = broker.with(|cluster| cluster.committed("readers", "python", 0));
    assert_eq!(committed, Some(expected.len() as i64), "{script} on {release}");
    assert!(broker.with(|cluster| cluster.members("readers")).is_empty(), "{script} left its group");
}

/// The interpreter of an environment with the packages, made once.
fn environment() -> Result<PathBuf, LeftOut> {
    let fail = |why: String| LeftOut(format!("the Python packages are not here: {why}"));
    let io = |error: std::io::Error| fail(error.to_string());
    let home = cache_root()?.join("python");
    fs::create_dir_all(&home).map_err(io)?;
    // Another test process may be at it; the lock goes with the file handle.
    let lock = File::create(home.join("lock")).map_err(io)?;
    lock.lock().map_err(io)?;
    let (folder, marker) = (home.join("environment"), home.join("complete"));
    let python = folder.join("bin/python");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&marker).is_ok_and(|have| have == wanted) && python.exists() {
        return Ok(python);
    }
    let run = |command: &mut Command, what: &str| {
        let output = command.output().map_err(|error| fail(format!("{what} does not start ({error})")))?;
        let said = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        if output.status.success() { Ok(()) } else { Err(fail(format!("{what}: {said}"))) }
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder), "python3 -m venv")?;
    let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];
    run(Command::new(&python).args(pip).args(PACKAGES), "pip install")?;
    fs::write(&marker, wanted).map_err(io)?;
    Ok(python)
}

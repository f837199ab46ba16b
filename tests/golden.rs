//! The bytes that real brokers answered, kept in `protocol-specs/golden/real`: `downspout decode` shows each file as
//! exactly the JSON beside it.
//!
//! `tests/real` has recorded them (`DOWNSPOUT_RECORD`, see `tests/real/record.rs`). With `DOWNSPOUT_GOLDEN=write` this
//! test writes the JSON and the index instead; look at the difference before you keep it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use downspout::protocol::{APIS, ApiKey, any};
use serde_json::{Value, json};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("protocol-specs/golden/real")
}

/// What a file's name says: `Fetch-12-2.8.2.response`, `magic-1-gzip-0.10.0.1.records`.
enum Kind {
    Response {
        api: String,
        version: i16,
    },
    /// As a fetch or a segment holds them: `magic-<m>-<codec>`, `transactions`, `compacted` or `upgraded`.
    Records {
        what: String,
    },
}

struct Sample {
    path: PathBuf,
    name: String,
    release: String,
    kind: Kind,
}

fn samples() -> Vec<Sample> {
    let mut samples: Vec<Sample> = fs::read_dir(golden())
        .expect("protocol-specs/golden/real")
        .filter_map(|file| {
            let path = file.expect("a file").path();
            let name = path.file_name()?.to_str()?.to_owned();
            let (release, kind) = match name.strip_suffix(".response") {
                Some(stem) => {
                    let (what, release) = stem.rsplit_once('-')?;
                    let (api, version) = what.rsplit_once('-')?;
                    let version = version.parse().expect("a version in the name");
                    (release, Kind::Response { api: api.to_owned(), version })
                }
                None => {
                    let (what, release) = name.strip_suffix(".records")?.rsplit_once('-')?;
                    (release, Kind::Records { what: what.to_owned() })
                }
            };
            Some(Sample { release: release.to_owned(), path, name: name.clone(), kind })
        })
        .collect();
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(samples.len() > 100, "only {} samples: are they all there?", samples.len());
    samples
}

fn decode(sample: &Sample) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downspout"));
    command.arg("decode");
    match &sample.kind {
        Kind::Response { api, version } => {
            command.args(["response", "--api", api, "--version", &version.to_string()])
        }
        Kind::Records { .. } => command.args(["records"]),
    };
    let output = command.arg(&sample.path).output().expect("downspout runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        output.status.success(),
        "{}: {}\n{text}{}",
        sample.name,
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn each_sample_decodes_to_its_json() {
    let write = std::env::var_os("DOWNSPOUT_GOLDEN").is_some_and(|value| value == "write");
    let mut wrong = Vec::new();
    let mut index = Vec::new();
    for sample in samples() {
        let found = decode(&sample);
        let expected = golden().join(format!("{}.json", sample.name));
        if write {
            fs::write(&expected, &found).expect("written");
        }
        let text = fs::read_to_string(&expected).unwrap_or_default();
        if text != found {
            wrong.push(format!("{}:\nexpected {text}\nfound    {found}", sample.name));
        }
        index.push(entry(&sample));
    }
    assert!(wrong.is_empty(), "{} samples differ:\n{}", wrong.len(), wrong.join("\n"));

    let index = format!("{}\n", serde_json::to_string_pretty(&Value::Array(index)).expect("JSON"));
    let file = golden().join("index.json");
    if write {
        fs::write(&file, &index).expect("written");
    }
    assert_eq!(fs::read_to_string(file).unwrap_or_default(), index, "index.json");
}

/// Where a file comes from.
fn entry(sample: &Sample) -> Value {
    let bytes = fs::metadata(&sample.path).expect("a file").len();
    match &sample.kind {
        Kind::Response { api, version } => json!({
            "file": sample.name, "kind": "response", "api": api, "version": version, "bytes": bytes,
            "broker": format!("Kafka {}", sample.release), "recorded_by": "tests/real/versions",
        }),
        Kind::Records { what } => json!({
            "file": sample.name, "kind": "records", "what": what, "bytes": bytes,
            "broker": format!("Kafka {}", sample.release), "recorded_by": "tests/real",
        }),
    }
}

/// A response is the same bytes when it is written again.
#[test]
fn each_response_is_written_as_it_was_read() {
    for sample in samples() {
        let Kind::Response { api, version } = &sample.kind else { continue };
        let bytes = Bytes::from(fs::read(&sample.path).expect("a file"));
        let key = ApiKey::from_name(api).expect("an API's name");
        let response = any::decode_response(key, *version, &bytes.slice(4..));
        let response = response.unwrap_or_else(|e| panic!("{}: {e}", sample.name));
        let body = response.message.encode().unwrap_or_else(|e| panic!("{}: {e}", sample.name));
        let header = bytes.len() - body.len();
        assert!([8, 9].contains(&header), "{}: {} bytes for {}", sample.name, body.len(), bytes.len());
        assert_eq!(bytes[header..], body, "{}", sample.name);
    }
}

/// Of each API all versions that a broker of the default run takes.
#[test]
fn each_version_of_each_api_is_there() {
    let have: BTreeSet<(String, i16)> = samples()
        .into_iter()
        .filter_map(|sample| match sample.kind {
            Kind::Response { api, version } => Some((api, version)),
            Kind::Records { .. } => None,
        })
        .collect();
    let missing: Vec<String> = APIS
        .iter()
        .flat_map(|api| {
            (api.versions.min..=api.versions.max).map(move |version| (api.name.to_owned(), version))
        })
        .filter(|pair| !have.contains(pair))
        .map(|(api, version)| format!("{api} {version}"))
        .collect();
    assert!(missing.is_empty(), "no sample of {}", missing.join(", "));
}

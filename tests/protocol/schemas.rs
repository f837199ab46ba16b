//! Every table of fields against the definitions that Kafka's own jars carry.
//!
//! The jars are fetched by Maven into a cache of the user's (`$DOWNSPOUT_TEST_CACHE`, else
//! `~/.cache`); without Maven or a network the checks are left out, and say so. 4.4.0 counts for
//! everything; the older ones for the layout of the versions that 4.0 dropped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use downspout::protocol::*;
use serde_json::Value;

const NEWEST: &str = "4.4.0";
const OLDER: [(&str, usize); 2] = [("3.9.1", 36), ("2.8.2", 34)];

#[test]
fn every_message_is_what_kafka_4_4_0_says() {
    let Some(kafka) = Definitions::of(NEWEST) else { return };
    let mut check = Check { everything: true, ..Check::default() };
    for api in APIS {
        let request = kafka.message(&format!("{}Request", api.name)).unwrap();
        let unstable = i16::from(request["latestVersionUnstable"] == true);
        for (kind, fields) in [("Request", api.request), ("Response", api.response)] {
            let name = format!("{}{kind}", api.name);
            let json = kafka.message(&name).unwrap();
            check.is(&name, "key", i64::from(api.key.0), json["apiKey"].as_i64().unwrap());
            let newest = range(&json["validVersions"]).max - unstable;
            check.is(&name, "newest stable version", api.versions.max, newest);
            check.message(&name, &json, api.versions, api.first_flexible, fields);
        }
    }
    let versions = Versions { min: 0, max: CONSUMER_PROTOCOL_VERSION };
    for (name, fields) in [
        ("ConsumerProtocolSubscription", ConsumerSubscription::FIELDS),
        ("ConsumerProtocolAssignment", ConsumerAssignment::FIELDS),
    ] {
        let json = kafka.message(name).unwrap();
        check.is(name, "newest version", versions.max, range(&json["validVersions"]).max);
        check.message(name, &json, versions, i16::MAX, fields);
    }
    check.finish(NEWEST, 36 + 2);
}

#[test]
fn versions_that_4_0_dropped_are_what_older_releases_say() {
    let Some(newest) = Definitions::of(NEWEST) else { return };
    for (release, messages) in OLDER {
        let Some(kafka) = Definitions::of(release) else { continue };
        let mut check = Check::default();
        for api in APIS {
            for (kind, fields) in [("Request", api.request), ("Response", api.response)] {
                let name = format!("{}{kind}", api.name);
                if let Some(json) = kafka.message(&name) {
                    check.newest = newest.message(&name).unwrap();
                    check.message(&name, &json, api.versions, api.first_flexible, fields);
                }
            }
        }
        check.finish(release, messages);
    }
}

#[test]
fn every_api_has_the_name_that_kafka_gives_it() {
    let Some(kafka) = Definitions::of(NEWEST) else { return };
    let mut seen = 0;
    for file in fs::read_dir(&kafka.folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(api) = name.strip_suffix("Request.json") else { continue };
        let json = kafka.message(&format!("{api}Request")).unwrap();
        let key = ApiKey(json["apiKey"].as_i64().unwrap() as i16);
        assert_eq!(key.name(), Some(api));
        seen += 1;
    }
    assert!(seen > 80, "{seen}");
}

/// Compares, and keeps what differs.
#[derive(Default)]
struct Check {
    /// Also what only the sender sees: names, defaults, `ignorable`.
    everything: bool,
    /// The newest release's definition, where another is checked.
    newest: Value,
    messages: usize,
    fields: usize,
    differences: Vec<String>,
}

impl Check {
    fn finish(self, release: &str, messages: usize) {
        assert!(self.differences.is_empty(), "against {release}:\n{}", self.differences.join("\n"));
        assert_eq!(self.messages, messages, "messages compared with {release}");
        assert!(self.fields > 100);
    }

    fn is<T: PartialEq + std::fmt::Debug>(&mut self, place: &str, what: &str, ours: T, kafkas: T) {
        if ours != kafkas {
            self.differences.push(format!("{place}: {what}: ours {ours:?}, Kafka's {kafkas:?}"));
        }
    }

    fn message(&mut self, name: &str, json: &Value, ours: Versions, flexible: i16, fields: &[FieldSpec]) {
        self.messages += 1;
        let first = match range(&json["flexibleVersions"]) {
            none if none == Versions::NONE => i16::MAX,
            flexible => flexible.min,
        };
        let valid = ours.intersection(range(&json["validVersions"])).unwrap();
        self.is(name, "first flexible version", flexible.min(valid.max + 1), first.min(valid.max + 1));
        let structs = json["commonStructs"].as_array().cloned().unwrap_or_default();
        let newest = self.newest.clone();
        self.fields(name, fields, &json["fields"], &newest["fields"], &structs, valid);
    }

    /// Compares the fields of a struct in the versions that carry the struct.
    fn fields(
        &mut self,
        place: &str,
        ours: &[FieldSpec],
        kafkas: &Value,
        newest: &Value,
        structs: &[Value],
        within: Versions,
    ) {
        let mut ours: Vec<_> =
            ours.iter().filter(|spec| spec.versions.intersection(within).is_some()).collect();
        let mut kafkas: Vec<_> = kafkas
            .as_array()
            .unwrap()
            .iter()
            .filter(|field| range(&field["versions"]).intersection(within).is_some())
            .collect();
        // The place of a tagged field among the others means nothing: its tag does.
        // A tagged field can have come later to a version that is older.
        let known = |name| kafkas.iter().any(|field| snake_case(todays_name(place, field)) == name);
        ours.retain(|spec| self.everything || spec.tag.is_none() || known(spec.name));
        ours.sort_by_key(|spec| spec.tag);
        kafkas.sort_by_key(|field| field["tag"].as_u64());
        let our_names: Vec<_> = ours.iter().map(|spec| spec.name.to_owned()).collect();
        let their_names: Vec<_> = kafkas.iter().map(|field| snake_case(todays_name(place, field))).collect();
        if our_names != their_names {
            self.is(place, "fields", our_names, their_names);
            return;
        }
        for (spec, field) in ours.into_iter().zip(kafkas) {
            self.fields += 1;
            let in_newest = newest.as_array().and_then(|fields| {
                fields.iter().find(|new| new["name"].as_str() == Some(todays_name(place, field)))
            });
            let place = format!("{place}.{}", spec.name);
            let clip = |versions: Versions| versions.intersection(within).unwrap_or(Versions::NONE);
            let carried = clip(spec.versions);
            self.is(&place, "versions", carried, clip(range(&field["versions"])));
            let nullable = |versions: Versions| versions.intersection(carried).unwrap_or(Versions::NONE);
            let their_nullable = nullable(range(&field["nullableVersions"]));
            self.is(&place, "nullable versions", nullable(spec.nullable), their_nullable);
            self.is(&place, "tag", spec.tag.map(u64::from), field["tag"].as_u64());
            if spec.tag.is_some() {
                self.is(&place, "tagged versions", carried, clip(range(&field["taggedVersions"])));
            }
            if self.everything || in_newest.is_none() {
                self.is(&place, "ignorable", spec.ignorable, field["ignorable"] == true);
                self.is(&place, "default", our_default(spec), their_default(field));
            }
            let type_name = field["type"].as_str().unwrap();
            let (mut kind, mut element) = (spec.kind, type_name);
            if let (Kind::Array(inner), Some(name)) = (kind, type_name.strip_prefix("[]")) {
                (kind, element) = (*inner, name);
            }
            if let Kind::Struct(inner) = kind {
                let shared = structs.iter().find(|shared| shared["name"] == element);
                let their_fields = shared.map_or(&field["fields"], |shared| &shared["fields"]);
                if their_fields.is_null() {
                    self.differences.push(format!("{place}: a struct here, {type_name} there"));
                    continue;
                }
                let newest = in_newest.map_or(&Value::Null, |new| &new["fields"]);
                self.fields(&place, inner, their_fields, newest, structs, carried);
            } else {
                self.is(&place, "type", kind_name(kind), element.replace("records", "bytes"));
            }
        }
    }
}

fn kind_name(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

fn our_default(spec: &FieldSpec) -> String {
    let own = match spec.kind {
        _ if spec.nullable != Versions::NONE => "null",
        Kind::Bool => "false",
        Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int64 => "0",
        _ => "",
    };
    match spec.default {
        "" => own.into(),
        "String::new()" | "Vec::new()" => String::new(),
        number => plain_number(number),
    }
}

fn their_default(field: &Value) -> String {
    let own = match field["type"].as_str().unwrap() {
        "bool" => "false",
        "records" => "null",
        name if name.starts_with("int") => "0",
        _ => "",
    };
    match &field["default"] {
        Value::Null => own.into(),
        Value::String(text) => plain_number(text),
        other => other.to_string(),
    }
}

fn plain_number(text: &str) -> String {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).unwrap().to_string(),
        None => text.into(),
    }
}

/// The name that the newest definitions have for a field.
fn todays_name<'a>(place: &str, field: &'a Value) -> &'a str {
    match (place, field["name"].as_str().unwrap()) {
        ("OffsetCommitRequest", "GenerationId") => "GenerationIdOrMemberEpoch",
        ("FetchResponse.responses", "PartitionResponses") => "Partitions",
        ("FetchResponse.responses.partitions", "Partition") => "PartitionIndex",
        ("FetchResponse.responses.partitions", "RecordSet") => "Records",
        (_, name) => name,
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// `"3+"`, `"0-12"`, `"7"`, `"none"`.
fn range(text: &Value) -> Versions {
    let Some(text) = text.as_str() else { return Versions::NONE };
    if text == "none" {
        Versions::NONE
    } else if let Some(min) = text.strip_suffix('+') {
        Versions { min: min.parse().unwrap(), max: i16::MAX }
    } else {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        Versions { min: min.parse().unwrap(), max: max.parse().unwrap() }
    }
}

/// The message definitions of one release.
struct Definitions {
    folder: PathBuf,
}

impl Definitions {
    /// `None`, after saying why, where they cannot be had.
    fn of(release: &str) -> Option<Definitions> {
        match Definitions::fetch(release) {
            Ok(definitions) => Some(definitions),
            Err(why) => {
                let mut stderr = std::io::stderr();
                let _ =
                    writeln!(stderr, "left out: the message definitions of Kafka {release} because {why}");
                None
            }
        }
    }

    fn fetch(release: &str) -> Result<Definitions, String> {
        let home = cache()?.join("definitions").join(release);
        let folder = home.join("common/message");
        let complete = home.join("complete");
        let text = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&home).map_err(text)?;
        // Another test may be at it; the lock goes with the file.
        let lock = fs::File::create(home.join("lock")).map_err(text)?;
        lock.lock().map_err(text)?;
        if !complete.exists() {
            let artifact = format!("-Dartifact=org.apache.kafka:kafka-clients:{release}");
            let to = format!("-DoutputDirectory={}", home.display());
            let copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";
            run(Command::new("mvn").args(["-B", "-q", copy, &artifact, &to]).current_dir(&home))?;
            let jar = format!("kafka-clients-{release}.jar");
            run(Command::new("unzip").args(["-qo", &jar, "common/message/*"]).current_dir(&home))
                .or_else(|_| run(Command::new("jar").args(["xf", &jar, "common"]).current_dir(&home)))?;
            fs::remove_file(home.join(jar)).map_err(text)?;
            fs::write(complete, "").map_err(text)?;
        }
        Ok(Definitions { folder })
    }

    fn message(&self, name: &str) -> Option<Value> {
        // ListOffsets had no plural once.
        let file = [name.to_owned(), name.replace("Offsets", "Offset")]
            .map(|name| self.folder.join(name + ".json"))
            .into_iter()
            .find(|file| file.exists())?;
        Some(serde_json::from_str(&without_comments(&read(&file))).unwrap_or_else(|e| panic!("{name}: {e}")))
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program} does not start ({error})"))?;
    if output.status.success() { Ok(()) } else { Err(format!("{program} failed ({})", output.status)) }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

fn cache() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("DOWNSPOUT_TEST_CACHE")
        .or_else(|| set("XDG_CACHE_HOME"))
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|root| root.join("downspout"))
        .ok_or_else(|| "there is no cache directory: set DOWNSPOUT_TEST_CACHE".to_owned())
}

/// The text without `//` comments, which JSON does not have.
fn without_comments(text: &str) -> String {
    let mut plain = String::new();
    for line in text.lines() {
        let (mut quoted, mut end) = (false, line.len());
        for (at, letter) in line.char_indices() {
            match letter {
                '"' => quoted = !quoted,
                '/' if !quoted && line[at..].starts_with("//") => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        plain.push_str(&line[..end]);
        plain.push('\n');
    }
    plain
}

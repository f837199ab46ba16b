//! The table of Kafka releases: the artifact, what has to be added to run it on today's Java, and what it can do.

/// One Kafka release.
#[derive(Debug)]
pub struct Release {
    pub name: &'static str,
    /// The Scala version of the broker's artifact, `kafka_<scala>`.
    pub scala: &'static str,
    /// Added or overridden, as `group:artifact:version`.
    pub added: &'static [&'static str],
    /// Part of every test run, or only of `tests/run --all`.
    pub default_run: bool,
}

/// How a broker keeps its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    ZooKeeper,
    KRaft,
}

/// Needed by `getOrGenerateClusterId` of 0.10.1 to 0.11, gone from Java 11 on.
const JAXB: &str = "javax.xml.bind:jaxb-api:2.3.1";
/// From 1.1 on the artifacts bring no logger.
const LOG: &str = "org.slf4j:slf4j-simple:1.7.36";
/// The 3.4.13 client of 2.0 to 2.3 can't resolve addresses on Java 17; 3.4.14 neither.
const ZOOKEEPER: &str = "org.apache.zookeeper:zookeeper:3.5.10";
/// The tools that moved out of the broker's jar. `*` stands for the release.
const TOOLS: &str = "org.apache.kafka:kafka-tools:*";

const fn row(
    name: &'static str,
    scala: &'static str,
    added: &'static [&'static str],
    default_run: bool,
) -> Release {
    Release { name, scala, added, default_run }
}

/// Oldest first.
pub static RELEASES: &[Release] = &[
    row("0.8.0", "2.10", &[], true),
    row("0.8.1.1", "2.10", &[], true),
    row("0.8.2.2", "2.11", &[], true),
    row("0.9.0.1", "2.11", &[], true),
    row("0.10.0.1", "2.11", &[], true),
    row("0.10.1.1", "2.11", &[JAXB], false),
    row("0.10.2.2", "2.11", &[JAXB], true),
    row("0.11.0.3", "2.11", &[JAXB], true),
    row("1.0.2", "2.11", &[], false),
    row("1.1.1", "2.11", &[LOG], true),
    row("2.0.1", "2.12", &[LOG, ZOOKEEPER], true),
    row("2.1.1", "2.12", &[LOG, ZOOKEEPER], false),
    row("2.2.2", "2.12", &[LOG, ZOOKEEPER], false),
    row("2.3.1", "2.12", &[LOG, ZOOKEEPER], false),
    row("2.4.1", "2.12", &[LOG], true),
    row("2.5.1", "2.13", &[LOG], false),
    row("2.7.2", "2.13", &[LOG], false),
    row("2.8.2", "2.13", &[LOG], true),
    row("3.0.2", "2.13", &[LOG], false),
    row("3.3.2", "2.13", &[LOG], false),
    row("3.5.2", "2.13", &[LOG, TOOLS], false),
    row("3.7.2", "2.13", &[LOG, TOOLS], false),
    row("3.8.1", "2.13", &[LOG, TOOLS], false),
    row("3.9.1", "2.13", &[LOG, TOOLS], false),
    row("3.9.2", "2.13", &[LOG, TOOLS], true),
    row("4.0.1", "2.13", &[LOG, TOOLS], false),
    row("4.0.2", "2.13", &[LOG, TOOLS], false),
    row("4.1.1", "2.13", &[LOG, TOOLS], false),
    row("4.1.2", "2.13", &[LOG, TOOLS], false),
    row("4.2.0", "2.13", &[LOG, TOOLS], false),
    row("4.2.2", "2.13", &[LOG, TOOLS], false),
    row("4.3.0", "2.13", &[LOG, TOOLS], false),
    row("4.3.1", "2.13", &[LOG, TOOLS], false),
    row("4.4.0", "2.13", &[LOG, TOOLS], true),
];

impl Release {
    pub fn named(name: &str) -> &'static Self {
        RELEASES.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no release {name} in the table"))
    }

    /// Whether it is the given version or newer.
    pub fn since(&self, version: &[u16]) -> bool {
        let own: Vec<u16> = self.name.split('.').map(|part| part.parse().unwrap()).collect();
        own.as_slice() >= version
    }

    pub fn mode(&self) -> Mode {
        if self.since(&[3]) { Mode::KRaft } else { Mode::ZooKeeper }
    }

    /// Flags without which this release does not run on Java 17, and those that make a start cheap.
    pub fn jvm_flags(&self) -> Vec<&'static str> {
        let mut flags = vec!["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k"];
        if !self.since(&[0, 8, 2]) {
            flags.extend(["--add-opens", "java.base/java.lang=ALL-UNNAMED"]); // snappy-java 1.0
        }
        flags
    }

    /// The codecs its own producer has, by Kafka's names.
    pub fn codecs(&self) -> &'static [&'static str] {
        match () {
            () if self.since(&[2, 1]) => &["none", "gzip", "snappy", "lz4", "zstd"],
            () if self.since(&[0, 8, 2]) => &["none", "gzip", "snappy", "lz4"],
            () => &["none", "gzip", "snappy"],
        }
    }

    /// The newest record format it writes.
    pub fn magic(&self) -> u8 {
        match () {
            () if self.since(&[0, 11]) => 2,
            () if self.since(&[0, 10]) => 1,
            () => 0,
        }
    }

    pub fn has_timestamps(&self) -> bool {
        self.magic() >= 1
    }

    pub fn has_headers(&self) -> bool {
        self.magic() >= 2
    }

    pub fn has_transactions(&self) -> bool {
        self.magic() >= 2
    }

    /// 0.8.0 could write a key, but no tombstone.
    pub fn has_null_values(&self) -> bool {
        self.since(&[0, 8, 1])
    }

    /// Whether a topic's format can be changed while it is in use: `message.format.version` works.
    pub fn upgrades_in_place(&self) -> bool {
        self.since(&[0, 10]) && !self.since(&[3])
    }

    /// The source files of the driver that fit its API, the first of each kind being the one to use.
    pub fn driver(&self) -> DriverClasses {
        let topics: &[_] = if self.since(&[0, 11]) { &["AdminTopics"] } else { &["ZkTopics"] };
        let producing: &[_] = match () {
            () if self.since(&[0, 11]) => &["HeaderProducing", "TimedProducing", "PlainProducing"],
            () if self.since(&[0, 10]) => &["TimedProducing", "PlainProducing"],
            () if self.since(&[0, 8, 2]) => &["PlainProducing"],
            () => &["ScalaProducing"],
        };
        let reading: &[_] = match () {
            () if self.since(&[0, 11]) => &["HeaderReading", "TimedReading", "PlainReading"],
            () if self.since(&[0, 10]) => &["TimedReading", "PlainReading"],
            () if self.since(&[0, 9]) => &["PlainReading"],
            () => &["OldReading"],
        };
        DriverClasses { topics, producing, reading }
    }

    pub fn console_consumer(&self) -> &'static str {
        match () {
            () if self.since(&[3, 8]) => "org.apache.kafka.tools.consumer.ConsoleConsumer",
            () if self.since(&[0, 8, 2]) => "kafka.tools.ConsoleConsumer",
            () => "kafka.consumer.ConsoleConsumer",
        }
    }

    /// How that consumer is told where to read.
    pub fn console_consumer_source(&self, broker: &str, zookeeper: &str) -> Vec<String> {
        let words: &[&str] = match () {
            () if self.since(&[0, 10, 1]) => &["--bootstrap-server", broker],
            () if self.since(&[0, 9]) => &["--new-consumer", "--bootstrap-server", broker],
            () => &["--zookeeper", zookeeper],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// A topic setting that makes segments small. Less than a MiB needs another name from 4.0 on, which 4.0 lacks.
    pub fn small_segments(&self) -> &'static str {
        match () {
            () if self.since(&[4, 1]) => "internal.segment.bytes=16384",
            () if self.since(&[4]) => "segment.ms=20",
            () => "segment.bytes=16384",
        }
    }

    pub fn get_offset_shell(&self) -> &'static str {
        if self.since(&[3, 7]) {
            "org.apache.kafka.tools.GetOffsetShell"
        } else {
            "kafka.tools.GetOffsetShell"
        }
    }

    pub fn dump_log_segments(&self) -> &'static str {
        if self.since(&[4, 3]) {
            "org.apache.kafka.tools.DumpLogSegments"
        } else {
            "kafka.tools.DumpLogSegments"
        }
    }

    /// From 0.10.1 on (KIP-79) the broker finds records by time; before, only segments by their file's time.
    pub fn offsets_by_record_time(&self) -> bool {
        self.since(&[0, 10, 1])
    }
}

#[derive(Debug)]
pub struct DriverClasses {
    pub topics: &'static [&'static str],
    pub producing: &'static [&'static str],
    pub reading: &'static [&'static str],
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kafka {}", self.name)
    }
}

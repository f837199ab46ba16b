//! The jars of a release, fetched once by Maven into a cache of the user's.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::LeftOut;
use super::release::Release;

/// Jars and compiled driver classes of one release.
#[derive(Clone, Debug)]
pub struct Libs {
    /// Holds `*.jar`.
    pub jars: PathBuf,
    /// Where things compiled against these jars are kept.
    pub compiled: PathBuf,
}

/// Left out of every Kafka artifact: not needed, and some can't be had from Maven Central any more.
const EXCLUDED: [&str; 7] = [
    "com.sun.jmx:jmxri",
    "com.sun.jdmk:jmxtools",
    "javax.jms:jms",
    "javax.mail:mail",
    "jline:jline",
    "junit:junit",
    "org.scala-lang:scala-compiler",
];

/// Left out of Storm: what can't be had, and logging that clashes with Kafka's.
const EXCLUDED_OF_STORM: [&str; 3] =
    ["ring-cors:ring-cors", "org.apache.logging.log4j:*", "org.slf4j:log4j-over-slf4j"];

const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

impl Libs {
    pub fn of(release: &Release) -> Result<Self, LeftOut> {
        let broker = format!("org.apache.kafka:kafka_{}:{}", release.scala, release.name);
        let mut artifacts = vec![broker];
        artifacts.extend(release.added.iter().map(|a| a.replace('*', release.name)));
        Self::ensure(&format!("kafka/{}", release.name), &artifacts)
    }

    /// A release of the ZooKeeper server; each of 3.4.14 to 3.9.4 serves every Kafka that wants one.
    pub fn zookeeper(release: &str) -> Result<Self, LeftOut> {
        let mut artifacts = vec![format!("org.apache.zookeeper:zookeeper:{release}")];
        if release.starts_with("3.8") || release.starts_with("3.9") {
            // Without these they do not start, and they do not bring them.
            artifacts.push("io.dropwizard.metrics:metrics-core:4.1.12.1".to_owned());
            artifacts.push("org.xerial.snappy:snappy-java:1.1.10.5".to_owned());
        }
        Self::ensure(&format!("zookeeper/{release}"), &artifacts)
    }

    /// The original spout, with what it needs to run without Storm around it.
    pub fn storm_kafka() -> Result<Self, LeftOut> {
        let artifacts = [
            "org.apache.storm:storm-core:1.2.4",
            "org.apache.storm:storm-kafka:1.2.4",
            "org.apache.kafka:kafka_2.11:0.10.2.2",
            "org.apache.kafka:kafka-clients:0.10.2.2",
            // The one that comes with it does not work on today's Java.
            "org.apache.zookeeper:zookeeper:3.5.10",
            "javax.xml.bind:jaxb-api:2.3.1",
            "org.slf4j:slf4j-log4j12:1.7.21",
        ];
        Self::ensure("storm-kafka/1.2.4", &artifacts.map(str::to_owned))
    }

    fn ensure(name: &str, artifacts: &[String]) -> Result<Self, LeftOut> {
        let home = cache_root()?.join(name);
        let libs = Self { jars: home.join("libs"), compiled: home.join("compiled") };
        let marker = home.join("complete");
        let wanted = artifacts.join("\n");
        let complete = || fs::read_to_string(&marker).is_ok_and(|have| have == wanted);
        if complete() {
            return Ok(libs);
        }
        let fail = |why: String| LeftOut(format!("the jars of {name} are not here: {why}"));
        let io = |e: std::io::Error| fail(e.to_string());
        fs::create_dir_all(&home).map_err(io)?;
        // Another test process may be at it; the lock goes with the file handle.
        let lock = File::create(home.join("lock")).map_err(io)?;
        lock.lock().map_err(io)?;
        if complete() {
            return Ok(libs);
        }
        let _ = fs::remove_dir_all(&libs.jars); // copy-dependencies leaves old jars in place
        let dir = tempfile::tempdir().map_err(io)?;
        fs::write(dir.path().join("pom.xml"), pom(artifacts)).map_err(io)?;
        let output = Command::new("mvn")
            .args(["-B", "-q", "-f"])
            .arg(dir.path().join("pom.xml"))
            .arg(COPY)
            .arg(format!("-DoutputDirectory={}", libs.jars.display()))
            .arg("-DincludeScope=runtime")
            .output()
            .map_err(|e| fail(format!("mvn does not start ({e})")))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            return Err(fail(format!("mvn failed: {}", text.lines().next().unwrap_or("(no output)"))));
        }
        fs::write(&marker, wanted).map_err(io)?;
        Ok(libs)
    }

    pub fn classpath(&self, first: &[&Path]) -> String {
        let mut entries: Vec<String> = first.iter().map(|path| path.display().to_string()).collect();
        entries.push(self.jars.join("*").display().to_string());
        entries.join(":")
    }
}

/// `$DOWNSPOUT_TEST_CACHE`, or the user's cache directory.
pub fn cache_root() -> Result<PathBuf, LeftOut> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("DOWNSPOUT_TEST_CACHE")
        .or_else(|| set("XDG_CACHE_HOME"))
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|root| root.join("downspout"))
        .ok_or_else(|| LeftOut("no cache directory: set DOWNSPOUT_TEST_CACHE".to_owned()))
}

fn pom(artifacts: &[String]) -> String {
    let mut text = String::from(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>downspout</groupId><artifactId>jars</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>\n",
    );
    for artifact in artifacts {
        let [group, name, version] = artifact.split(':').collect::<Vec<_>>()[..] else {
            panic!("not group:artifact:version: {artifact}")
        };
        // The tools are one jar on top of the broker's, whose dependencies are there already.
        let excluded: &[&str] = match (group, name) {
            (_, "kafka-tools") => &["*:*"],
            ("org.apache.storm", _) => &EXCLUDED_OF_STORM,
            _ => &EXCLUDED,
        };
        let _ = write!(
            text,
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>\
             <exclusions>"
        );
        for (group, name) in excluded.iter().filter_map(|e| e.split_once(':')) {
            let _ = write!(
                text,
                "<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>"
            );
        }
        text.push_str("</exclusions></dependency>\n");
    }
    text + "</dependencies></project>\n"
}

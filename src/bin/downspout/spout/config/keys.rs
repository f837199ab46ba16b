//! The settings: one table, from which the flags, the variables, the file, the help, the completions and
//! `docs/spout-settings.md` come.

use downspout::client::StartOffset;
use downspout::records::CrcCheck;
use downspout::spout::{AssignmentOrder, Form, OnPoison, Oversize};

use super::settled::Config;
use super::value::{Kind, Value};
use crate::consume::{Bound, Wanted};
use crate::output::BytesAs;
use crate::properties;

/// A setting.
#[derive(Debug)]
pub(super) struct Key {
    /// As in the file; flags have `-` for `_`, variables are in capitals behind `DOWNSPOUT_`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    /// Read like any other value; `None`: not set.
    pub(super) default: Option<&'static str>,
    pub(super) set: Setter,
    flag: Option<&'static str>,
    pub(super) short: Option<char>,
    placeholder: Option<&'static str>,
}

pub(super) type Setter = fn(&mut Config, &Value) -> Result<(), String>;

impl Key {
    /// The flag, without the dashes.
    pub(super) fn flag(&self) -> String {
        self.flag.map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }

    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase())
    }

    pub(super) fn placeholder(&self) -> &'static str {
        self.placeholder.unwrap_or(self.kind.placeholder())
    }

    const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    const fn flagged(mut self, flag: &'static str, short: Option<char>) -> Self {
        self.flag = Some(flag);
        self.short = short;
        self
    }

    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    const fn shown(mut self, placeholder: &'static str) -> Self {
        self.placeholder = Some(placeholder);
        self
    }
}

const fn key(name: &'static str, kind: Kind, help: &'static str, set: Setter) -> Key {
    Key { name, kind, help, default: None, set, flag: None, short: None, placeholder: None }
}

/// What the variables begin with.
pub(super) const PREFIX: &str = "DOWNSPOUT_";

/// All settings, under their headings.
pub(super) const SECTIONS: &[(&str, &[Key])] = &[
    ("Connection", CONNECTION),
    ("What to read, and the position", POSITION),
    ("Failures", FAILURES),
    ("Limits and times", LIMITS),
    ("Reading", READING),
    ("What is done with records", WORK),
    ("Watching", WATCHING),
];

/// All settings.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|(_, keys)| *keys)
}

const CONNECTION: &[Key] = &[
    key("brokers", Kind::List(','), "Brokers to begin with: host:port,host:port; the port is 9092 unless given. Or the ZooKeeper that knows them: zk://host:port,host:port/chroot", |d, v| {
        d.brokers = v.parts().join(",");
        Ok(())
    })
    .short('b'),
    key(
        "zookeeper",
        Kind::Text,
        "The ZooKeeper that Kafka uses, HOST:PORT,…/CHROOT: for the brokers and, below --root, for the positions, \
         where neither is said",
        |d, v| {
            d.zookeeper = Some(v.filled()?.to_owned());
            Ok(())
        },
    )
    .shown("CONNECT"),
    key("root", Kind::Text, "The node in --zookeeper under which positions are kept (storm-kafka's zkRoot)", |d, v| {
        d.root = Some(v.filled()?.to_owned());
        Ok(())
    })
    .shown("PATH"),
    key(
        "properties",
        Kind::List(' '),
        "Settings under the names that other clients use, such as client.id=me; may be repeated. A setting of \
         this list weighs more. An unknown name is an error that names near ones",
        |d, v| {
            d.properties = v.parts().into_iter().map(str::to_owned).collect();
            Ok(())
        },
    )
    .flagged("property", Some('X'))
    .shown("NAME=VALUE"),
    key(
        "client_config",
        Kind::Text,
        "A properties file with such settings, as Kafka's own commands take it (client.properties); properties \
         weigh more",
        |d, v| {
            d.client_config = Some(v.filled()?.into());
            Ok(())
        },
    )
    .shown("FILE"),
    key("rack", Kind::Text, "The rack that this is run in: replicas there are read, where the brokers say so", |d, v| {
        d.rack = Some(v.filled()?.to_owned());
        Ok(())
    })
    .shown("NAME"),
    key("memory", Kind::Size, "Bytes for all that is fetched and not finished yet", |d, v| {
        d.memory = v.size()?;
        Ok(())
    })
    .or("256MiB"),
];

const POSITION: &[Key] = &[
    key(
        "topics",
        Kind::List(','),
        "The topics; may be repeated. With ^ in front it is a regular expression, for all topics that match, \
         later ones too",
        |d, v| {
            d.topics = v.parts().into_iter().map(str::parse::<Wanted>).collect::<Result<_, _>>()?;
            Ok(())
        },
    )
    .flagged("topic", Some('t'))
    .shown("TOPIC"),
    key("id", Kind::Text, "The name under which positions are kept. Needed wherever they outlive this process", |d, v| {
        d.id = Some(v.filled()?.to_owned());
        Ok(())
    })
    .shown("ID"),
    key("store", Kind::Text, "Where positions are kept: memory (not beyond this process), zk://HOST:PORT,…/ROOT, file:DIR, kafka, or kafka:GROUP", |d, v| {
        d.store = v.filled()?.parse()?;
        Ok(())
    })
    .or("memory")
    .shown("STORE"),
    key(
        "start",
        Kind::Text,
        "Where a partition without a checkpoint begins: earliest, latest, N (an offset), -N (so many before the \
         end) or s@MS (a time, in ms since 1970)",
        |d, v| {
            d.settings.start = match v.text()?.parse()? {
                Bound::Beginning => StartOffset::Earliest,
                Bound::End => StartOffset::Latest,
                Bound::Offset(offset) => StartOffset::At(offset),
                Bound::Last(count) => StartOffset::Tail(count.unsigned_abs()),
                Bound::Since(time) => StartOffset::Timestamp(time),
                Bound::Until(_) => return Err("expected earliest, latest, N, -N or s@MS".into()),
            };
            Ok(())
        },
    )
    .or("earliest")
    .shown("OFFSET"),
    key("require_checkpoint", Kind::Switch, "A partition without a checkpoint is an error at the start", |d, v| {
        d.settings.require_checkpoint = v.switch()?;
        Ok(())
    })
    .or("false"),
    key(
        "ignore_stored_offsets",
        Kind::Switch,
        "Set a checkpoint aside that another instance left, and begin at --start; needs --instance-id",
        |d, v| {
            d.settings.ignore_stored_offsets = v.switch()?;
            Ok(())
        },
    )
    .or("false"),
    key("instance_id", Kind::Text, "What stays the same over restarts of one deployment; random if not set", |d, v| {
        d.settings.instance_id = Some(v.filled()?.to_owned());
        Ok(())
    }),
    key("name", Kind::Text, "A name for people, kept beside the position; the id if not set", |d, v| {
        d.settings.name = Some(v.filled()?.to_owned());
        Ok(())
    }),
    key("compat_storm", Kind::Switch, "Checkpoints exactly as storm-kafka writes them, without extras", |d, v| {
        d.settings.compat_storm = v.switch()?;
        Ok(())
    })
    .or("false"),
    key(
        "reset",
        Kind::Choice(&["fail", "earliest", "latest", "nearest"]),
        "What to do when the position is not in the log. Not set: below the start of the log go on there and \
         count what was lost, in a topic that was made anew begin anew, above the end stop the partition",
        |d, v| {
            use downspout::client::ResetPolicy;
            d.settings.reset = Some(match v.choice(&["fail", "earliest", "latest", "nearest"])? {
                "earliest" => ResetPolicy::Earliest,
                "latest" => ResetPolicy::Latest,
                "nearest" => ResetPolicy::Nearest,
                _ => ResetPolicy::Fail,
            });
            Ok(())
        },
    ),
    key(
        "members",
        Kind::Switch,
        "Share the partitions with all processes that run this spout so, instead of by tasks; needs a store in \
         ZooKeeper",
        |d, v| {
            d.members = v.switch()?;
            Ok(())
        },
    )
    .or("false"),
    key("task_index", Kind::Number, "Number of this task among --total-tasks, from 0", |d, v| {
        d.settings.task_index = v.number()?;
        Ok(())
    })
    .or("0"),
    key("total_tasks", Kind::Number, "How many tasks share the partitions", |d, v| {
        d.settings.total_tasks = v.count()?;
        Ok(())
    })
    .or("1"),
    key(
        "assignment",
        Kind::Choice(ASSIGNMENTS),
        "How partitions of several topics are dealt to tasks: each topic by itself, or all in one line as \
         storm-kafka has them",
        |d, v| {
            d.settings.assignment = match v.choice(ASSIGNMENTS)? {
                "concatenated" => AssignmentOrder::Concatenated,
                _ => AssignmentOrder::ByTopic,
            };
            Ok(())
        },
    )
    .or("by_topic"),
];

const ASSIGNMENTS: &[&str] = &["by_topic", "concatenated"];

const FAILURES: &[Key] = &[
    key(
        "retry",
        Kind::Choice(RETRIES),
        "How failed records come again: each after a time that grows; at once, the lowest first (storm-kafka \
         0.9.2 to 0.9.7); or the whole partition from the failed one on (storm-kafka-0.8-plus)",
        |d, v| {
            d.retry = v.choice(RETRIES)?;
            Ok(())
        },
    )
    .or("backoff"),
    key("retry_first", Kind::Duration, "Back-off after the first failure", |d, v| {
        d.backoff.first = v.duration()?;
        Ok(())
    })
    .or("100ms"),
    key("retry_multiplier", Kind::Decimal, "So many times as long after each further one", |d, v| {
        d.backoff.multiplier = v.decimal()?;
        Ok(())
    })
    .or("2"),
    key("retry_longest", Kind::Duration, "The longest back-off", |d, v| {
        d.backoff.longest = v.duration()?;
        Ok(())
    })
    .or("1m"),
    key("retry_jitter", Kind::Decimal, "Share of the back-off that chance adds or takes, 0 to 1", |d, v| {
        d.backoff.jitter = v.decimal()?;
        Ok(())
    })
    .or("0.2"),
    key(
        "retry_limit",
        Kind::Number,
        "How often a record may fail before --on-exhausted; without limit if not set",
        |d, v| {
            d.settings.retry_limit = Some(v.count()?);
            Ok(())
        },
    ),
    key(
        "on_exhausted",
        Kind::Choice(EXHAUSTED),
        "What becomes of a record that failed for the last time: it counts as done; it goes to \
         --dead-letter-topic; or its partition stops",
        |d, v| {
            d.on_exhausted = Some(v.choice(EXHAUSTED)?);
            Ok(())
        },
    ),
    key("dead_letter_topic", Kind::Text, "The topic for --on-exhausted dead_letter", |d, v| {
        d.dead_letters.topic = v.filled()?.to_owned();
        Ok(())
    })
    .shown("TOPIC"),
    key("dead_letter_create", Kind::Switch, "Create that topic if it does not exist", |d, v| {
        d.dead_letters.create = v.switch()?;
        Ok(())
    })
    .or("false"),
    key(
        "dead_letter_form",
        Kind::Choice(FORMS),
        "How a record looks there: as it was with headers downspout.* (brokers from 0.11 on), or a JSON \
         document with everything in it",
        |d, v| {
            d.dead_letters.form = if v.choice(FORMS)? == "envelope" { Form::Envelope } else { Form::Headers };
            Ok(())
        },
    )
    .or("headers"),
    key(
        "dead_letter_oversize",
        Kind::Choice(OVERSIZE),
        "What to do about a record that the topic does not take for its size",
        |d, v| {
            let drop = v.choice(OVERSIZE)? == "drop_value";
            d.dead_letters.oversize = if drop { Oversize::DropValue } else { Oversize::Stop };
            Ok(())
        },
    )
    .or("stop"),
    key(
        "dead_letter_break_at",
        Kind::Decimal,
        "A partition stops when this share of its last 100 records went there; 1 or more for never",
        |d, v| {
            let share = v.decimal()?;
            d.dead_letters.break_at = Some(share).filter(|share| *share > 0.0).ok_or("it must be above 0")?;
            Ok(())
        },
    )
    .or("0.5"),
    key(
        "give_up_under_pressure",
        Kind::Switch,
        "The one record that blocks a window full of finished ones goes the way of --on-exhausted",
        |d, v| {
            d.settings.give_up_under_pressure = v.switch()?;
            Ok(())
        },
    )
    .or("false"),
    key(
        "on_poison",
        Kind::Choice(POISON),
        "What to do about records that cannot be read: stop the partition; skip and count; or --on-exhausted",
        |d, v| {
            d.settings.on_poison = match v.choice(POISON)? {
                "skip" => OnPoison::Skip,
                "give_up" => OnPoison::GiveUp,
                _ => OnPoison::Stop,
            };
            Ok(())
        },
    )
    .or("stop"),
];

const RETRIES: &[&str] = &["backoff", "failed_set", "rewind"];
const EXHAUSTED: &[&str] = &["skip", "dead_letter", "stop"];
const FORMS: &[&str] = &["headers", "envelope"];
const OVERSIZE: &[&str] = &["stop", "drop_value"];
const POISON: &[&str] = &["stop", "skip", "give_up"];

const LIMITS: &[Key] = &[
    key("window_records", Kind::Number, "Records taken in and not safely done, per partition", |d, v| {
        d.settings.window.records = v.count()?;
        Ok(())
    })
    .or("10000"),
    key("window_bytes", Kind::Size, "Their bytes", |d, v| {
        d.settings.window.bytes = v.size()?;
        Ok(())
    })
    .or("64MiB"),
    key("parked_records", Kind::Number, "Records that wait for their retry, per partition", |d, v| {
        d.settings.parked.records = v.number()?;
        Ok(())
    })
    .or("1000"),
    key("parked_bytes", Kind::Size, "Their bytes", |d, v| {
        d.settings.parked.bytes = v.size()?;
        Ok(())
    })
    .or("16MiB"),
    key("commit_interval", Kind::Duration, "Time between commits", |d, v| {
        d.settings.commit_interval = v.duration()?;
        Ok(())
    })
    .or("2s"),
    key("drain_timeout", Kind::Duration, "How long closing waits for what was handed out", |d, v| {
        d.settings.drain_timeout = v.duration()?;
        Ok(())
    })
    .or("20s"),
    key(
        "ack_timeout",
        Kind::Duration,
        "A record that was handed out so long ago has failed; never if not set",
        |d, v| {
            d.settings.ack_timeout = Some(v.duration()?);
            Ok(())
        },
    ),
    key(
        "report_unfinished_after",
        Kind::Duration,
        "A record that was handed out so long ago is reported, once",
        |d, v| {
            d.settings.report_unfinished_after = v.duration()?;
            Ok(())
        },
    )
    .or("1m"),
    key(
        "pause_after_commit_failure",
        Kind::Duration,
        "Handing out pauses when positions could not be kept for so long",
        |d, v| {
            d.settings.pause_after_commit_failure = v.duration()?;
            Ok(())
        },
    )
    .or("5m"),
    key("refresh_interval", Kind::Duration, "How often new partitions and topics are looked for", |d, v| {
        d.settings.refresh_interval = v.duration()?;
        Ok(())
    })
    .or("1m"),
    key(
        "order",
        Kind::Choice(ORDERS),
        "Which records may run at the same time: any, or those of one key one after another",
        |d, v| {
            d.by_key = v.choice(ORDERS)? == "by_key";
            Ok(())
        },
    )
    .or("any"),
    key(
        "null_is_a_key",
        Kind::Switch,
        "With --order by_key: records without a key are one after another too",
        |d, v| {
            d.null_is_a_key = v.switch()?;
            Ok(())
        },
    )
    .or("false"),
];

const ORDERS: &[&str] = &["any", "by_key"];

const READING: &[Key] = &[
    key(
        "isolation",
        Kind::Choice(ISOLATIONS),
        "read_committed leaves out aborted transactions and what is not decided yet",
        |d, v| {
            d.settings.stream.isolation = properties::isolation(v.choice(ISOLATIONS)?)?;
            Ok(())
        },
    )
    .or("read_committed"),
    key("check_crcs", Kind::Switch, "Verify checksums", |d, v| {
        d.settings.stream.crc = if v.switch()? { CrcCheck::Verify } else { CrcCheck::Skip };
        Ok(())
    })
    .or("true"),
    key(
        "partition_bytes",
        Kind::Size,
        "Bytes of one partition in one answer; a larger batch comes all the same",
        |d, v| {
            d.settings.stream.partition_bytes = v.small_size()?;
            Ok(())
        },
    )
    .or("1MiB"),
    key("max_inflated", Kind::Size, "Bytes that one compressed batch may inflate to", |d, v| {
        d.settings.stream.max_inflated = v.size()?;
        Ok(())
    })
    .or("128MiB"),
    key("max_wait", Kind::Duration, "How long a broker waits for records where there are none", |d, v| {
        d.settings.stream.max_wait = v.duration()?;
        Ok(())
    })
    .or("500ms"),
    key("min_bytes", Kind::Size, "Bytes that a broker waits for, at most --max-wait", |d, v| {
        d.settings.stream.min_bytes = v.small_size()?;
        Ok(())
    })
    .or("1"),
    key(
        "report_open_transaction_after",
        Kind::Duration,
        "A partition that stands still behind an open transaction so long is reported",
        |d, v| {
            d.settings.stream.report_open_transaction_after = v.duration()?;
            Ok(())
        },
    )
    .or("10s"),
    key(
        "report_stall_after",
        Kind::Duration,
        "A partition that cannot be read for so long is reported",
        |d, v| {
            d.settings.stream.report_stall_after = v.duration()?;
            Ok(())
        },
    )
    .or("10s"),
];

const ISOLATIONS: &[&str] = &["read_committed", "read_uncommitted"];

const WORK: &[Key] = &[
    key(
        "exec",
        Kind::Command,
        "Hand records to this command, one JSON line each on its standard input; it answers ack ID or fail ID \
         REASON on its standard output. It is run by sh; a program behind -- is run without it (in the file: a \
         list)",
        |d, v| {
            d.exec = Some(match v {
                Value::One(_) => vec!["sh".into(), "-c".into(), v.filled()?.to_owned()],
                Value::Many(words) if words.first().is_some_and(|program| !program.is_empty()) => words.clone(),
                Value::Many(_) => return Err("the program is missing".into()),
            });
            Ok(())
        },
    ),
    key("workers", Kind::Number, "How many of these commands run side by side", |d, v| {
        d.workers = Some(v.count()?).filter(|workers| *workers <= 1_000).ok_or("at most 1000")?;
        Ok(())
    })
    .or("1"),
    key("concurrency", Kind::Number, "Records that one command may have at a time", |d, v| {
        d.concurrency = Some(v.count()?).filter(|count| *count <= 100_000).ok_or("at most 100000")?;
        Ok(())
    })
    .or("1"),
    key(
        "exec_timeout",
        Kind::Duration,
        "A command that has records and answers for none of them so long is ended; its records are released",
        |d, v| {
            d.exec_timeout =
                Some(v.duration()?).filter(|timeout| !timeout.is_zero()).ok_or("it must be above 0")?;
            Ok(())
        },
    )
    .or("5m"),
    key(
        "ack_on_write",
        Kind::Switch,
        "Without --exec: records count as done once they are written to standard output, which is at most once \
         for whoever reads it. Must be said where positions outlive this process",
        |d, v| {
            d.ack_on_write = v.switch()?;
            Ok(())
        },
    )
    .or("false"),
    key("bytes", Kind::Choice(BYTES), "How keys, values and headers look: text where they are UTF-8, or always encoded", |d, v| {
        d.bytes = match v.choice(BYTES)? {
            "base64" => BytesAs::Base64,
            "hex" => BytesAs::Hex,
            _ => BytesAs::Auto,
        };
        Ok(())
    })
    .or("auto"),
    key(
        "exit_at_end",
        Kind::Switch,
        "Exit when everything up to the ends that the partitions had at the start is done, retries included",
        |d, v| {
            d.exit_at_end = v.switch()?;
            Ok(())
        },
    )
    .or("false")
    .short('e'),
];

const BYTES: &[&str] = &["auto", "base64", "hex"];

const WATCHING: &[Key] = &[
    key(
        "metrics",
        Kind::Text,
        "Serve /metrics (Prometheus), /healthz and /readyz there; PORT alone is on 127.0.0.1",
        |d, v| {
            d.metrics = Some(super::settled::listen(v.text()?)?);
            Ok(())
        },
    )
    .shown("[HOST:]PORT"),
    key("log", Kind::Choice(LOGS), "What is said on standard error beside errors", |d, v| {
        d.log = match v.choice(LOGS)? {
            "off" => None,
            "error" => Some(tracing::Level::ERROR),
            "info" => Some(tracing::Level::INFO),
            "debug" => Some(tracing::Level::DEBUG),
            _ => Some(tracing::Level::WARN),
        };
        Ok(())
    })
    .or("warn"),
    key("quiet", Kind::Switch, "Show no status line", |d, v| {
        d.quiet = v.switch()?;
        Ok(())
    })
    .or("false")
    .short('q'),
];

const LOGS: &[&str] = &["off", "error", "warn", "info", "debug"];

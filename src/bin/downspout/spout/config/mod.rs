//! The settings of `downspout spout`: flags weigh more than variables, these more than the file, and that
//! more than the defaults. All come from the table in `keys.rs`.

mod file;
mod flags;
mod keys;
mod print;
mod settled;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use downspout::records::Isolation;
pub(crate) use flags::Flags;
pub(crate) use settled::Config;

use crate::connect::Target;
use crate::exit::Failure;
use crate::near;
use crate::properties::Properties;
use keys::{Key, PREFIX};
use value::Value;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File(PathBuf, usize),
    Variable(String),
    Flag(String),
    /// A setting under the name that other clients use.
    Property,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(file, line) => write!(f, "{}:{line}", file.display()),
            Source::Variable(name) => f.write_str(name),
            Source::Flag(name) => write!(f, "--{name}"),
            Source::Property => f.write_str("properties"),
        }
    }
}

/// What was set, by the names of the settings.
type Given = BTreeMap<&'static str, (Value, Source)>;

/// All settings, and where they come from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) target: Target,
    given: Given,
    /// What was passed over, to be told.
    pub(crate) notes: Vec<String>,
}

impl Loaded {
    /// Gathers the settings.
    pub(crate) fn load(
        flags: &Flags,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        file: Option<&Path>,
    ) -> Result<Loaded, Failure> {
        let (from_variables, config_file, notes) = variables_of(variables)?;
        let file = file.map(Path::to_owned).or(config_file);
        let mut given = match &file {
            // As the other commands take it.
            Some(file) if file.extension().is_some_and(|extension| extension == "properties") => {
                let value = Value::One(file.display().to_string());
                Given::from([("client_config", (value, Source::Flag("config".to_owned())))])
            }
            Some(file) => file::read(file)?,
            None => Given::new(),
        };
        given.extend(from_variables);
        given.extend(flags.given());
        from_properties(&mut given)?;
        let mut config = Config::empty();
        for key in keys::all() {
            match given.get(key.name) {
                Some((value, source)) => (key.set)(&mut config, value)
                    .map_err(|why| Failure::usage(format_args!("{}: {why}", place(key, source))))?,
                None => {
                    let Some(default) = key.default else { continue };
                    (key.set)(&mut config, &key.kind.read(default)).map_err(Failure::usage)?;
                }
            }
        }
        let is_changed = |name: &str| {
            let key = keys::all().find(|key| key.name == name);
            let default = key.and_then(|key| Some(key.kind.read(key.default?)));
            given.get(name).is_some_and(|(value, _)| Some(value) != default.as_ref())
        };
        config.settle(is_changed).map_err(Failure::usage)?;
        let target = config.connect()?;
        Ok(Loaded { config, target, given, notes })
    }

    /// What is in force, as a file, with where each value comes from.
    pub(crate) fn print(&self) -> String {
        print::effective(&self.given)
    }
}

/// Settings under the names of other clients count where a setting of its own was not given.
fn from_properties(given: &mut Given) -> Result<(), Failure> {
    let parts = |name: &str| -> Vec<String> {
        let list = given.get(name).map(|(list, _)| list.parts());
        list.unwrap_or_default().into_iter().map(str::to_owned).collect()
    };
    let file = parts("client_config").into_iter().next().map(PathBuf::from);
    let properties = Properties::read(file.as_deref(), &parts("properties"))?;
    // A limit of the whole answer holds for a partition's part of it too.
    let most = properties.max_bytes.unwrap_or(i32::MAX);
    let partition_bytes = properties.partition_max_bytes.or(Some(1 << 20).filter(|usual| most < *usual));
    let partition_bytes = partition_bytes.map(|bytes| bytes.min(most));
    let isolation = properties.isolation.map(|isolation| match isolation {
        Isolation::ReadUncommitted => "read_uncommitted".to_owned(),
        Isolation::ReadCommitted => "read_committed".to_owned(),
    });
    let reset =
        properties.offset_reset.and_then(|reset| Some(reset.to_possible_value()?.get_name().to_owned()));
    for (name, value) in [
        ("rack", properties.rack),
        ("isolation", isolation),
        ("check_crcs", properties.check_crcs.map(|check| check.to_string())),
        ("partition_bytes", partition_bytes.map(|bytes| bytes.to_string())),
        ("min_bytes", properties.min_bytes.map(|bytes| bytes.max(1).to_string())),
        ("max_wait", properties.max_wait.map(|wait| format!("{}ms", wait.as_millis()))),
        ("reset", reset),
    ] {
        if let Some(value) = value {
            given.entry(name).or_insert((Value::One(value), Source::Property));
        }
    }
    Ok(())
}

/// What a message about a value begins with.
fn place(key: &Key, source: &Source) -> String {
    match source {
        Source::File(..) => format!("{source}: {}", key.name),
        _ => source.to_string(),
    }
}

/// What the variables set; the file that one of them names; and what was passed over.
fn variables_of(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Given, Option<PathBuf>, Vec<String>), Failure> {
    let (mut given, mut file, mut notes) = (Given::new(), None, Vec::new());
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        // What is empty is not set: so it is when a variable is handed on that is not there.
        if value.is_empty() {
            continue;
        }
        if name == CONFIG_VARIABLE {
            file = Some(PathBuf::from(value));
            continue;
        }
        let Some(key) = keys::all().find(|key| key.variable() == name) else {
            let plain = name.trim_start_matches(PREFIX).to_lowercase();
            let near = keys::all().filter(|key| key.name.len().abs_diff(plain.len()) <= 3);
            let known: Vec<String> =
                near.filter(|key| !near::hint(&plain, [key.name]).is_empty()).map(Key::variable).collect();
            let hint = near::hint(name, known.iter().map(String::as_str));
            // Others may have variables that begin so; Kubernetes makes some for a service of that name.
            if hint.is_empty() {
                notes.push(format!("{name} is passed over: there is no such setting"));
                continue;
            }
            return Err(Failure::usage(format_args!("{name}: there is no such setting.{hint}")));
        };
        let value =
            value.into_string().map_err(|_| Failure::usage(format_args!("{name}: it is not UTF-8")))?;
        given.insert(key.name, (key.kind.read(&value), Source::Variable(name.to_owned())));
    }
    Ok((given, file, notes))
}

/// Names the file, where `--config` does not.
const CONFIG_VARIABLE: &str = "DOWNSPOUT_CONFIG";

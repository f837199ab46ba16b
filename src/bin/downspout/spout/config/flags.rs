//! The flags, made from the table.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::keys::{self, Key};
use super::value::{Kind, Value};
use super::{Given, Source};

/// What the flags set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags(Vec<(&'static Key, Value)>);

impl Flags {
    pub(super) fn given(&self) -> Given {
        let source = |key: &Key| Source::Flag(key.flag());
        self.0.iter().map(|(key, value)| (key.name, (value.clone(), source(key)))).collect()
    }

    /// The program behind `--`, which weighs as much as `--exec`.
    pub(crate) fn with_program(mut self, words: &[String]) -> Result<Flags, &'static str> {
        if words.is_empty() {
            return Ok(self);
        }
        if self.0.iter().any(|(key, _)| key.name == EXEC) {
            return Err("--exec and a program behind -- are one command too many");
        }
        self.0.extend(keys::all().find(|key| key.name == EXEC).map(|key| (key, Value::Many(words.to_vec()))));
        Ok(self)
    }
}

const EXEC: &str = "exec";

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let flags =
            keys::SECTIONS.iter().flat_map(|(heading, keys)| keys.iter().map(|key| flag(heading, key)));
        command.args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |key: &'static Key| {
            let given: Vec<&String> = matches.get_many(key.name)?.collect();
            let value = match key.kind {
                // A list is split, and the parts of each are put together.
                Kind::List(',') => {
                    Value::Many(given.iter().flat_map(|text| super::value::split(text, ',')).collect())
                }
                Kind::List(_) => Value::Many(given.into_iter().cloned().collect()),
                kind => kind.read(given.last()?),
            };
            Some((key, value))
        };
        Ok(Flags(keys::all().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(heading: &'static str, key: &'static Key) -> Arg {
    let help = match key.default.filter(|_| key.kind != Kind::Switch) {
        Some(default) => format!("{} [default: {default}]", key.help),
        None => key.help.to_owned(),
    };
    let flag = Arg::new(key.name)
        .long(key.flag())
        .help(help)
        .help_heading(heading)
        .value_name(key.placeholder())
        .allow_negative_numbers(key.kind == Kind::Text);
    let flag = if key.name == "store" { flag.visible_alias("checkpoints") } else { flag };
    let flag = match key.short {
        Some(short) => flag.short(short),
        None => flag,
    };
    match key.kind {
        Kind::List(_) => flag.action(ArgAction::Append),
        Kind::Switch => flag
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(["true", "false"])
            .hide_possible_values(true),
        Kind::Choice(names) => {
            let value = |name: &&'static str| PossibleValue::new(*name).alias(name.replace('_', "-"));
            flag.action(ArgAction::Set)
                .value_parser(clap::builder::PossibleValuesParser::new(names.iter().map(value)))
        }
        _ => flag.action(ArgAction::Set),
    }
}

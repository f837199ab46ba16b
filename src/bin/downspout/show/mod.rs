//! How `consume` shows a record: the value and a delimiter, a template (`-f`), kcat's envelope
//! (`-J`), or our JSON (`--json`).

mod json;
mod template;

use std::io::Write;

use clap::Args;

use crate::escape::unescape;
use crate::exit::Failure;
use crate::output::{BytesAs, Output};
use crate::record_json::Content;
use template::Template;

/// How records are shown.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Show each record in this form. Tokens: %s value, %S its length (-1 for null), %R the same as
    /// four bytes, %k key, %K its length, %t topic, %p partition, %o offset, %T timestamp in ms,
    /// %h headers (name=value,…), %%. Escapes: \n \r \t \0 \xNN
    #[arg(short, long, value_name = "FORMAT", conflicts_with_all = ["envelope", "json", "delimiter", "key_delimiter"])]
    format: Option<String>,
    /// One JSON object per record, with the names that kcat uses
    #[arg(short = 'J', long = "envelope", conflicts_with = "json")]
    envelope: bool,
    /// One JSON object per record: topic, partition, offset, timestamp, timestamp_type, key, value,
    /// headers
    #[arg(long)]
    json: bool,
    /// What follows each record; \n, \t, \0 and \xNN are understood
    #[arg(short = 'D', long, value_name = "TEXT", default_value = "\\n")]
    delimiter: String,
    /// Show the key before the value, and this between them
    #[arg(short = 'K', long, value_name = "TEXT")]
    key_delimiter: Option<String>,
    /// Show a null key or value as NULL; otherwise it looks like an empty one
    #[arg(short = 'Z', long)]
    null: bool,
    /// How byte strings are shown in JSON
    #[arg(long, value_name = "FORM", value_enum, default_value_t = BytesAs::Auto)]
    pub(crate) bytes: BytesAs,
}

/// A record, and where it came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) broker: i32,
    pub(crate) offset: i64,
    pub(crate) content: Content<'a>,
    /// What is wrong with it, if its value is the raw bytes of what could not be read.
    pub(crate) damage: Option<&'a str>,
}

/// Shows records.
pub(crate) enum Show {
    Template(Template),
    Envelope,
    Json,
}

impl ShowArgs {
    pub(crate) fn show(&self) -> Result<Show, Failure> {
        if self.json {
            return Ok(Show::Json);
        }
        if self.envelope {
            return Ok(Show::Envelope);
        }
        if let Some(format) = &self.format {
            let template = Template::parse(format, self.null);
            return template
                .map(Show::Template)
                .map_err(|why| Failure::usage(format_args!("--format: {why}")));
        }
        let bytes = |name: &str, text: &String| {
            unescape(text).map_err(|why| Failure::usage(format_args!("{name}: {why}")))
        };
        let delimiter = bytes("--delimiter", &self.delimiter)?;
        let key_delimiter =
            self.key_delimiter.as_ref().map(|text| bytes("--key-delimiter", text)).transpose()?;
        Ok(Show::Template(Template::lines(delimiter, key_delimiter, self.null)))
    }
}

impl Show {
    /// Whether programs are to read it.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self, Show::Envelope | Show::Json)
    }

    pub(crate) fn record<W: Write>(&self, output: &mut Output<W>, shown: Shown<'_>) {
        match self {
            Show::Template(template) => template.show(output, shown),
            Show::Envelope => json::envelope(output, shown),
            Show::Json => json::ours(output, shown),
        }
    }
}

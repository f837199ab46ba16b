//! `downspout decode request` and `decode response`: one whole frame in, one JSON object out.

use std::io;

use bytes::Bytes;
use clap::Args;
use downspout::protocol::{APIS, Api, ApiKey, RequestHeader, any};
use downspout::wire::{DecodeError, Problem, Reader};

use super::json::Fields;
use crate::exit::{Exit, Failure};
use crate::input::InputArgs;
use crate::near;
use crate::output::{BytesAs, Output};

/// Show a request frame, its 4-byte size in front, as one JSON object
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The API that the frame must ask, by name or number; otherwise its header says it
    #[arg(long, value_name = "NAME", value_parser = api)]
    api: Option<ApiKey>,
    /// The version that the frame must have; otherwise its header says it
    #[arg(long, value_name = "N")]
    version: Option<i16>,
    /// How byte strings are shown
    #[arg(long, value_name = "FORM", value_enum, default_value_t = BytesAs::Auto)]
    bytes: BytesAs,
}

/// Show a response frame, its 4-byte size in front, as one JSON object
#[derive(Debug, Args)]
pub(crate) struct ResponseArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The API that answered, by name or number: a response does not say it
    #[arg(long, value_name = "NAME", value_parser = api)]
    api: ApiKey,
    /// The version of the request that was answered
    #[arg(long, value_name = "N")]
    version: i16,
    /// How byte strings are shown
    #[arg(long, value_name = "FORM", value_enum, default_value_t = BytesAs::Auto)]
    bytes: BytesAs,
}

fn api(name: &str) -> Result<ApiKey, String> {
    let key = ApiKey::from_name(name).or_else(|| name.parse().ok().map(ApiKey));
    match key {
        Some(key) if Api::of(key).is_some() => Ok(key),
        Some(key) => Err(format!("{key} is not among the APIs that this command knows: {}", known())),
        None => {
            let hint = near::hint(name, APIS.iter().map(|api| api.name));
            Err(if hint.is_empty() {
                format!("no API has this name; known are {}", known())
            } else {
                format!("no API has this name.{hint}")
            })
        }
    }
}

fn known() -> String {
    APIS.iter().map(|api| api.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn request(args: &RequestArgs) -> Result<Exit, Failure> {
    if let (Some(api), Some(version)) = (args.api, args.version) {
        check_version(api, version)?;
    }
    let frame = Bytes::from(args.input.read()?);
    show(args.bytes, |output| show_request(args, &frame, output))
}

pub(crate) fn response(args: &ResponseArgs) -> Result<Exit, Failure> {
    check_version(args.api, args.version)?;
    let frame = Bytes::from(args.input.read()?);
    show(args.bytes, |output| show_response(args, &frame, output))
}

type Stdout = Output<io::StdoutLock<'static>>;

fn show(bytes: BytesAs, frame: impl FnOnce(&mut Stdout) -> Result<(), Bad>) -> Result<Exit, Failure> {
    let mut output = Output::new(io::stdout().lock()).bytes_as(bytes);
    let exit = match frame(&mut output) {
        Ok(()) => Exit::Ok,
        Err(Bad { what, field, position }) => {
            Fields::begin(&mut output)
                .field("error", |visitor| visitor.text(&what))
                .field("field", |visitor| visitor.text(field))
                .field("position", |visitor| visitor.integer(position as i64))
                .end();
            Exit::Found
        }
    };
    output.flush().map_err(Failure::output)?;
    Ok(exit)
}

/// A frame that is not what it should be.
struct Bad {
    what: String,
    field: &'static str,
    /// In the whole frame, its size included.
    position: usize,
}

impl Bad {
    fn new(field: &'static str, position: usize, what: &str) -> Bad {
        Bad { what: format!("{field} at byte {position} {what}"), field, position }
    }
}

/// Positions of the decoder count from after the size.
impl From<DecodeError> for Bad {
    fn from(error: DecodeError) -> Bad {
        let DecodeError { field, position, problem } = error;
        Bad::new(field, position + SIZE, &problem.to_string())
    }
}

/// Bytes of the size in front of a frame.
const SIZE: usize = 4;

fn show_request(args: &RequestArgs, frame: &Bytes, output: &mut Stdout) -> Result<(), Bad> {
    let body = without_size(frame)?;
    let header = RequestHeader::read(&mut Reader::of_frame(&body, "request_api_key"))?;
    let RequestHeader { request_api_key: key, request_api_version: version, .. } = header;
    if let Some(api) = args.api.filter(|api| *api != key) {
        return Err(Bad::new("request_api_key", 4, &format!("is {key}, but {api} was named with --api")));
    }
    if let Some(named) = args.version.filter(|named| *named != version) {
        let what = format!("is {version}, but {named} was named with --version");
        return Err(Bad::new("request_api_version", 6, &what));
    }
    check_header(key, version)?;
    let request = any::decode_request(&body)?;
    let mut fields = Fields::begin(output)
        .field("size", |visitor| visitor.integer(body.len() as i64))
        .field("request_api_key", |visitor| visitor.integer(key.0.into()))
        .field("request_api_version", |visitor| visitor.integer(version.into()))
        .field("correlation_id", |visitor| visitor.integer(request.header.correlation_id.into()))
        .field("client_id", |visitor| match &request.header.client_id {
            Some(id) => visitor.text(id),
            None => visitor.null(),
        });
    request.message.visit(&mut fields);
    fields.end();
    Ok(())
}

fn show_response(args: &ResponseArgs, frame: &Bytes, output: &mut Stdout) -> Result<(), Bad> {
    let body = without_size(frame)?;
    let response = any::decode_response(args.api, args.version, &body)?;
    let mut fields = Fields::begin(output)
        .field("size", |visitor| visitor.integer(body.len() as i64))
        .field("correlation_id", |visitor| visitor.integer(response.correlation_id.into()));
    response.message.visit(&mut fields);
    fields.end();
    Ok(())
}

fn check_header(key: ApiKey, version: i16) -> Result<(), Bad> {
    match Api::of(key) {
        None => {
            let what = format!("is {}, which is none of the APIs that this command knows", key.0);
            Err(Bad::new("request_api_key", 4, &what))
        }
        Some(api) if api.version(version).is_none() => {
            let what = format!("is {version}, but {} has the versions {}", api.name, api.versions);
            Err(Bad::new("request_api_version", 6, &what))
        }
        Some(_) => Ok(()),
    }
}

fn without_size(frame: &Bytes) -> Result<Bytes, Bad> {
    let mut reader = Reader::new(frame, "size");
    let at_start = |problem: Problem| Bad::new("size", 0, &problem.to_string());
    let size = reader.i32().map_err(|error| at_start(error.problem))?;
    match usize::try_from(size) {
        Ok(size) if size == reader.left() => Ok(frame.slice(SIZE..)),
        Ok(size) if size < reader.left() => {
            Err(Bad::new("size", 0, &format!("is {size}, but {} bytes follow it", reader.left())))
        }
        _ => Err(at_start(Problem::Length { declared: size.into(), left: reader.left() })),
    }
}

fn check_version(key: ApiKey, version: i16) -> Result<(), Failure> {
    match Api::of(key) {
        Some(api) if api.version(version).is_none() => Err(Failure::usage(format_args!(
            "{} has no version {version}; the versions known here are {}",
            api.name, api.versions
        ))),
        _ => Ok(()),
    }
}

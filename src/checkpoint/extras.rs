//! What a checkpoint holds beside its offset, as one JSON object that fits where there is little room.
//!
//! ```json
//! {"v":1,"o":21,"s":7,"r":"9f3c","i":19,"d":"DHEG","u":"AEA","h":"…"}
//! ```
//!
//! Two lists are packed: runs of done offsets (`d`) as distances, gap and length in turn, and unfinished
//! records (`u`) as distance, attempts and deaths. Each number takes one character per five bits, the
//! lowest first, as in source maps. `h` is the CRC-32C of the object without it, keys in this order and
//! without spaces: whoever writes the same values in another way breaks nothing.
//!
//! Extras that are foreign, cut, stale or damaged are no extras; nothing is ever skipped on their word.

use std::fmt::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::{Extras, Owner, Unfinished};
use crate::wire::Uuid;

/// Longer ones are not read. A run takes two characters or more, so the memory is bounded as well.
pub(super) const LONGEST: usize = 1 << 20;

const VERSION: u64 = 1;
/// `,"h":"01234567"}`
const CLOSING: usize = 16;
/// `,"d":""`
const AROUND_A_LIST: usize = 7;

/// Who wrote them, as far as it stands here and not elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Signature {
    pub(super) run: Option<String>,
    pub(super) instance: Option<String>,
    pub(super) name: Option<String>,
}

/// Extras as text.
#[derive(Debug, PartialEq)]
pub(super) struct Encoded {
    pub(super) text: String,
    /// Runs of done offsets are in it as far as they end here or below.
    pub(super) done_until: i64,
}

/// Extras as they fit into so many bytes: runs of done offsets are left out first, from the highest
/// down, then what is unfinished, then names. `None` if even the rest does not fit.
pub(super) fn encode(offset: i64, signature: &Signature, extras: &Extras, limit: usize) -> Option<Encoded> {
    let limit = limit.min(LONGEST);
    let topic_id = extras.topic_id.map(|id| id.to_string());
    let mut object = Object {
        offset,
        serial: extras.serial,
        run: signature.run.as_deref(),
        instance: signature.instance.as_deref(),
        name: signature.name.as_deref(),
        topic_id: topic_id.as_deref(),
        leader_epoch: extras.leader_epoch,
        cluster_id: extras.cluster_id.as_deref(),
        deaths: extras.deaths,
        clean: extras.clean,
        idle: extras.idle,
        intake: extras.intake.and_then(|intake| distance(offset, intake)),
        done: None,
        unfinished: None,
    };
    let room = |object: &Object<'_>| limit.checked_sub(object.body().len() + CLOSING);
    if room(&object).is_none() {
        (object.name, object.cluster_id) = (None, None);
    }
    let mut room = room(&object)?;
    // All, or at least those that somebody may have died of.
    let all = pack_unfinished(offset, extras.unfinished.iter());
    let deadly = pack_unfinished(offset, extras.unfinished.iter().filter(|one| one.deaths > 0));
    let fits = |list: &&String| !list.is_empty() && list.len() + AROUND_A_LIST <= room;
    if let Some(list) = [&all, &deadly].into_iter().find(fits) {
        room -= list.len() + AROUND_A_LIST;
        object.unfinished = Some(list);
    }
    let (done, done_until) = pack_runs(offset, &extras.done, room.saturating_sub(AROUND_A_LIST));
    object.done = (!done.is_empty()).then_some(&done);
    Some(Encoded { text: object.sealed(), done_until })
}

/// Extras out of a text that stands beside this offset; else why there are none.
pub(super) fn parse(text: &str, offset: i64) -> Result<(Signature, Extras), String> {
    if !text.starts_with('{') {
        return Err("it is not from a spout of this kind".to_owned());
    }
    if text.len() > LONGEST {
        return Err(format!("it has {} bytes, more than any that is written", text.len()));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => decode(&object, offset),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(why) => Err(format!("it is cut or damaged: {why}")),
    }
}

/// Extras out of an object that stands beside this offset; else why there are none.
pub(super) fn decode(object: &Map<String, Value>, offset: i64) -> Result<(Signature, Extras), String> {
    match object.get("v").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => return Err(format!("it is of version {other}, and this program knows {VERSION}")),
        None => return Err("it is not from a spout of this kind".to_owned()),
    }
    let seal = object.get("h").and_then(Value::as_str).ok_or("it has no checksum")?;
    let found = Object::read(object).ok_or("a field is missing or of another type")?;
    if found.seal() != seal {
        return Err("its checksum does not fit".to_owned());
    }
    if found.offset != offset {
        return Err(format!("it belongs to offset {}, not to {offset}", found.offset));
    }
    let ahead =
        |distance: u64| i64::try_from(distance).ok().and_then(|distance| offset.checked_add(distance));
    let intake = match found.intake {
        None => None,
        Some(distance) => Some(ahead(distance).ok_or("its intake is out of range")?),
    };
    let topic_id = match found.topic_id {
        None => None,
        Some(id) => Some(topic_id_of(id).ok_or("its topic id is none")?),
    };
    let extras = Extras {
        serial: found.serial,
        topic_id,
        leader_epoch: found.leader_epoch,
        cluster_id: found.cluster_id.map(str::to_owned),
        done: unpack_runs(offset, found.done.unwrap_or_default()).ok_or("its runs are out of order")?,
        unfinished: unpack_unfinished(offset, found.unfinished.unwrap_or_default())
            .ok_or("its unfinished records are out of order")?,
        deaths: found.deaths,
        clean: found.clean,
        idle: found.idle,
        intake,
    };
    let signature = Signature {
        run: found.run.map(str::to_owned),
        instance: found.instance.map(str::to_owned),
        name: found.name.map(str::to_owned),
    };
    Ok((signature, extras))
}

impl Signature {
    /// All that there is.
    pub(super) fn whole(owner: Option<&Owner>) -> Self {
        let text = |text: fn(&Owner) -> &String| owner.map(text).filter(|text| !text.is_empty()).cloned();
        Signature {
            run: text(|owner| &owner.run),
            instance: text(|owner| &owner.instance),
            name: text(|owner| &owner.name),
        }
    }

    /// The run alone, where instance and name have a place of their own.
    pub(super) fn run(owner: Option<&Owner>) -> Self {
        Signature { run: Signature::whole(owner).run, ..Signature::default() }
    }
}

/// The object, its lists packed.
#[derive(Debug)]
struct Object<'a> {
    offset: i64,
    serial: u64,
    run: Option<&'a str>,
    instance: Option<&'a str>,
    name: Option<&'a str>,
    topic_id: Option<&'a str>,
    leader_epoch: Option<i32>,
    cluster_id: Option<&'a str>,
    deaths: u32,
    clean: bool,
    idle: bool,
    intake: Option<u64>,
    done: Option<&'a str>,
    unfinished: Option<&'a str>,
}

impl<'a> Object<'a> {
    fn read(object: &'a Map<String, Value>) -> Option<Self> {
        let text = |key| match object.get(key) {
            None => Some(None),
            Some(value) => value.as_str().map(Some),
        };
        let number = |key| match object.get(key) {
            None => Some(None),
            Some(value) => value.as_u64().map(Some),
        };
        Some(Object {
            offset: object.get("o")?.as_i64()?,
            serial: number("s")??,
            run: text("r")?,
            instance: text("a")?,
            name: text("n")?,
            topic_id: text("t")?,
            leader_epoch: match object.get("e") {
                None => None,
                Some(value) => Some(i32::try_from(value.as_i64()?).ok()?),
            },
            cluster_id: text("c")?,
            deaths: u32::try_from(number("x")?.unwrap_or(0)).ok()?,
            clean: number("k")?.unwrap_or(0) == 1,
            idle: number("q")?.unwrap_or(0) == 1,
            intake: number("i")?,
            done: text("d")?,
            unfinished: text("u")?,
        })
    }

    /// All but the checksum and the closing brace.
    fn body(&self) -> String {
        let mut body = format!("{{\"v\":{VERSION},\"o\":{},\"s\":{}", self.offset, self.serial);
        let mut text = |key: char, value: Option<&str>| {
            if let Some(value) = value {
                // Writing to a string does not fail.
                let _ = write!(body, ",\"{key}\":{}", Value::from(value));
            }
        };
        text('r', self.run);
        text('a', self.instance);
        text('n', self.name);
        text('t', self.topic_id);
        text('c', self.cluster_id);
        if let Some(epoch) = self.leader_epoch {
            let _ = write!(body, ",\"e\":{epoch}");
        }
        if self.deaths > 0 {
            let _ = write!(body, ",\"x\":{}", self.deaths);
        }
        if self.clean {
            body.push_str(",\"k\":1");
        }
        if self.idle {
            body.push_str(",\"q\":1");
        }
        if let Some(intake) = self.intake {
            let _ = write!(body, ",\"i\":{intake}");
        }
        // Packed lists hold nothing that JSON would escape; others make another checksum.
        for (key, list) in [('d', self.done), ('u', self.unfinished)] {
            if let Some(list) = list {
                let _ = write!(body, ",\"{key}\":\"{list}\"");
            }
        }
        body
    }

    fn seal(&self) -> String {
        format!("{:08x}", crc32c::crc32c(self.body().as_bytes()))
    }

    fn sealed(&self) -> String {
        let mut text = self.body();
        let seal = crc32c::crc32c(text.as_bytes());
        let _ = write!(text, ",\"h\":\"{seal:08x}\"}}");
        text
    }
}

/// Runs as far as they fit, those that touch as one, and where the last of them ends. What follows a run that is out of
/// order is left out: it would not be read back.
fn pack_runs(offset: i64, runs: &[Range<i64>], limit: usize) -> (String, i64) {
    let touch = |a: &Range<i64>, b: &Range<i64>| a.end == b.start;
    let (mut packed, mut end) = (String::new(), offset);
    for run in runs.chunk_by(touch).filter_map(|runs| Some(runs.first()?.start..runs.last()?.end)) {
        let (Some(gap), Some(length @ 1..)) = (distance(end, run.start), distance(run.start, run.end)) else {
            break;
        };
        let before = packed.len();
        pack(&mut packed, gap);
        pack(&mut packed, length);
        if packed.len() > limit {
            packed.truncate(before);
            break;
        }
        end = run.end;
    }
    (packed, end)
}

fn unpack_runs(offset: i64, packed: &str) -> Option<Vec<Range<i64>>> {
    let (mut rest, mut end, mut runs) = (packed.as_bytes(), offset, Vec::new());
    while !rest.is_empty() {
        // Only the first may begin at once: where the records that are read next were done before.
        let (gap, length @ 1..) = (unpack(&mut rest)?, unpack(&mut rest)?) else { return None };
        if gap == 0 && !runs.is_empty() {
            return None;
        }
        let start = end.checked_add_unsigned(gap)?;
        end = start.checked_add_unsigned(length)?;
        runs.push(start..end);
    }
    Some(runs)
}

fn pack_unfinished<'a>(offset: i64, unfinished: impl Iterator<Item = &'a Unfinished>) -> String {
    let (mut packed, mut next) = (String::new(), offset);
    for record in unfinished {
        let Some(ahead) = distance(next, record.offset) else { break };
        pack(&mut packed, ahead);
        pack(&mut packed, record.attempts.into());
        pack(&mut packed, record.deaths.into());
        next = record.offset.saturating_add(1);
    }
    packed
}

fn unpack_unfinished(offset: i64, packed: &str) -> Option<Vec<Unfinished>> {
    let (mut rest, mut next, mut unfinished) = (packed.as_bytes(), offset, Vec::new());
    while !rest.is_empty() {
        let offset = next.checked_add_unsigned(unpack(&mut rest)?)?;
        let attempts = u32::try_from(unpack(&mut rest)?).ok()?;
        let deaths = u32::try_from(unpack(&mut rest)?).ok()?;
        next = offset.checked_add(1)?;
        unfinished.push(Unfinished { offset, attempts, deaths });
    }
    Some(unfinished)
}

fn topic_id_of(text: &str) -> Option<Uuid> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Uuid)
}

/// From one offset to one that is not lower.
fn distance(from: i64, to: i64) -> Option<u64> {
    (to >= from).then(|| to.abs_diff(from))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const MORE: u8 = 32;

fn pack(packed: &mut String, mut number: u64) {
    loop {
        let low = (number & 31) as u8;
        number >>= 5;
        let digit = if number > 0 { low | MORE } else { low };
        packed.push(char::from(DIGITS[usize::from(digit)]));
        if number == 0 {
            return;
        }
    }
}

fn unpack(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0_u64, 0);
    loop {
        let (first, others) = rest.split_first()?;
        *rest = others;
        let digit = match first {
            b'A'..=b'Z' => first - b'A',
            b'a'..=b'z' => first - b'a' + 26,
            b'0'..=b'9' => first - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        let low = u64::from(digit & 31);
        // The thirteenth digit has room for four bits.
        if shift > 60 || (shift == 60 && low > 15) {
            return None;
        }
        number |= low << shift;
        if digit & MORE == 0 {
            return Some(number);
        }
        shift += 5;
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests;

//! All records of the corpus are read back and compared byte for byte.

use downspout::records::{Header, Record};

use crate::corpus::Entry;
use crate::harness::{Result, Seen};
use crate::stage::Stage;

/// The release's own consumer agrees with what we believe was written: our expectations are right.
pub fn own_consumer(stage: &mut Stage) -> Result<()> {
    for topic in &stage.topics {
        for (partition, entries) in topic.partitions.iter().enumerate() {
            let end = entries.last().map_or(0, |last| last.offset + 1);
            let seen = stage.driver.read(&topic.name, partition as i32, 0, end, false)?;
            compare(&format!("{} partition {partition}", topic.name), entries, &seen)?;
        }
    }
    Ok(())
}

/// Expected and seen records, told apart by the first that differs.
pub fn compare(place: &str, expected: &[Entry], seen: &[Seen]) -> Result<()> {
    for (entry, seen) in expected.iter().zip(seen) {
        same(entry, seen).map_err(|e| format!("{place}: {e}"))?;
    }
    if expected.len() != seen.len() {
        return Err(format!("{place}: expected {} records, found {}", expected.len(), seen.len()));
    }
    Ok(())
}

/// Two readers saw the same, to the last byte.
pub fn same_records(who: &str, expected: &[Seen], seen: &[Seen]) -> Result<()> {
    for (expected, seen) in expected.iter().zip(seen) {
        if expected != seen {
            return Err(format!("{who}: expected {}, found {}", short(expected), short(seen)));
        }
    }
    if expected.len() != seen.len() {
        return Err(format!("{who}: expected {} records, found {}", expected.len(), seen.len()));
    }
    Ok(())
}

/// A record is the one that was written. Where no time is expected, any will do.
pub fn same(entry: &Entry, seen: &Seen) -> Result<()> {
    let same = entry.offset == seen.offset
        && entry.timestamp.is_none_or(|wanted| seen.timestamp == Some(wanted))
        && entry.record.key == seen.key
        && entry.record.value == seen.value
        && entry.record.headers == seen.headers;
    if same { Ok(()) } else { Err(format!("expected {}, found {}", short(entry), short(seen))) }
}

/// A record as our own decoder has it.
pub fn seen(record: &Record<'_>) -> Result<Seen> {
    let header = |header: Header<'_>| {
        let key = String::from_utf8(header.key.to_vec()).map_err(|e| e.to_string())?;
        Ok((key, header.value.map(<[u8]>::to_vec)))
    };
    Ok(Seen {
        offset: record.offset(),
        timestamp: record.timestamp(),
        timestamp_type: record.timestamp_type().map(|kind| kind.name().to_owned()),
        key: record.key().map(<[u8]>::to_vec),
        value: record.value().map(<[u8]>::to_vec),
        headers: record.headers().map(header).collect::<Result<_>>()?,
    })
}

fn short(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    if text.len() > 1200 { format!("{}… ({} characters)", &text[..1000], text.len()) } else { text }
}

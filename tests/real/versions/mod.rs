//! Every version in a broker's range of every API we speak is pinned, sent to it, and its answer decoded.
//!
//! Each answer must say what is known of the broker, come out as the same bytes when it is written again, and mean
//! the same to another decoder (`second_opinion`).

mod groups;
mod pinned;
mod producing;
mod reading;
mod second_opinion;

use std::collections::BTreeMap;

use downspout::protocol::*;
use downspout::wire::Uuid;

pub use pinned::Pinned;

use crate::harness::{Release, Result};
use crate::stage::Stage;

/// What the checks of one broker share.
pub struct Pins<'a> {
    pub stage: &'a mut Stage,
    pub connection: Pinned,
    pub ranges: BTreeMap<ApiKey, Versions>,
    /// Topic ids by name; all zero before 2.8.
    pub ids: BTreeMap<String, Uuid>,
    count: usize,
}

/// All APIs of a broker that this crate speaks, in all their versions.
pub fn all(stage: &mut Stage) -> Result<()> {
    let mut connection = Pinned::connect(stage.kafka.address(), stage.release)?;
    let ranges = ranges(stage.release, &mut connection)?;
    let mut pins = Pins { stage, connection, ranges, ids: BTreeMap::new(), count: 0 };
    reading::all(&mut pins)?;
    producing::all(&mut pins)?;
    groups::all(&mut pins)?;
    println!("   {} requests of {} APIs", pins.count, pins.ranges.len());
    Ok(())
}

impl Pins<'_> {
    /// Runs a check with every version of an API that the broker takes, none if it does not have the API.
    /// That we speak all the broker does is part of the check.
    pub fn each<R: Request>(&mut self, mut check: impl FnMut(&mut Self, i16) -> Result<()>) -> Result<()> {
        let Some(broker) = self.ranges.get(&R::KEY).copied() else { return Ok(()) };
        let both =
            R::VERSIONS.intersection(broker).ok_or_else(|| format!("{}: no version in common", R::NAME))?;
        if both != broker {
            return Err(format!("{}: the broker speaks {broker}, we only {}", R::NAME, R::VERSIONS));
        }
        for version in both.min..=both.max {
            self.count += 1;
            check(self, version).map_err(|e| format!("{} {version}: {e}", R::NAME))?;
        }
        Ok(())
    }

    /// The newest version of an API that the broker takes.
    pub fn newest<R: Request>(&self) -> Option<i16> {
        self.ranges.get(&R::KEY).map(|range| range.max)
    }

    /// Name and id of a topic, as an API that has ids from `since` on wants them.
    pub fn topic(&self, name: &str, version: i16, since: i16) -> (String, Uuid) {
        if version < since { (name.to_owned(), Uuid::ZERO) } else { (String::new(), self.ids[name]) }
    }
}

/// Without an error.
pub fn fine(what: &str, code: ErrorCode) -> Result<()> {
    if code.0 == 0 { Ok(()) } else { Err(format!("{what}: error {code:?}")) }
}

/// The only element there is to be.
pub fn only<T: std::fmt::Debug>(list: &[T]) -> Result<&T> {
    match list {
        [one] => Ok(one),
        other => Err(format!("one expected, not {other:?}")),
    }
}

/// The versions a broker takes, as it tells; before 0.10 as its source has them.
pub fn ranges(release: &Release, connection: &mut Pinned) -> Result<BTreeMap<ApiKey, Versions>> {
    if release.since(&[0, 10]) {
        let told = connection.answer(&ApiVersionsRequest::default(), 0)?;
        fine("ApiVersions 0", told.error_code)?;
        let range = |api: &ApiVersionRange| {
            // 4.x tells of Produce 0 to 2 and does not speak them (KAFKA-18659).
            let min = if api.api_key == 0 && release.since(&[4]) { 3 } else { api.min_version };
            (ApiKey(api.api_key), Versions { min, max: api.max_version })
        };
        return Ok(told.api_keys.iter().map(range).collect());
    }
    let mut max = vec![(0, 0), (1, 0), (2, 0), (3, 0)];
    if release.since(&[0, 8, 1]) {
        max.extend([(8, 0), (9, 0)]);
    }
    if release.since(&[0, 8, 2]) {
        max.extend([(8, 1), (9, 1), (10, 0)]);
    }
    if release.since(&[0, 9]) {
        max.extend([(0, 1), (1, 1), (8, 2), (11, 0), (12, 0), (13, 0), (14, 0), (16, 0)]);
    }
    Ok(max.into_iter().map(|(key, max)| (ApiKey(key), Versions { min: 0, max })).collect())
}

//! Records that commands died with. One such death is nobody's fault; the record that was there at two is
//! run alone, and if the command dies again it has failed, so that a retry limit holds for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::work::Place;

/// Deaths after which a record is run alone, and may be told to be the one.
const ALONE_AFTER: u32 = 2;
/// Records kept at most; those beyond are innocent.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(in crate::spout) struct Suspects(Mutex<HashMap<Place, u32>>);

impl Suspects {
    /// Whether this record must be run alone.
    pub(super) fn runs_alone(&self, place: &Place) -> bool {
        let deaths = self.lock();
        !deaths.is_empty() && deaths.get(place).is_some_and(|deaths| *deaths >= ALONE_AFTER)
    }

    /// A command died with it; whether that makes it the culprit.
    pub(super) fn died(&self, place: Place, alone: bool) -> bool {
        let mut deaths = self.lock();
        if deaths.get(&place).is_some_and(|deaths| *deaths >= ALONE_AFTER) && alone {
            deaths.remove(&place);
            return true;
        }
        if deaths.len() < MOST || deaths.contains_key(&place) {
            *deaths.entry(place).or_default() += 1;
        }
        false
    }

    /// It was answered for.
    pub(super) fn clear(&self, place: impl FnOnce() -> Place) {
        let mut deaths = self.lock();
        if !deaths.is_empty() {
            deaths.remove(&place());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Throttling: from these versions on the broker answers at once and then does not read from the
//! connection for the time it names (KIP-219), so the client holds back by itself. Before them the
//! answer itself came late, and the time in it is only told.

use std::time::Duration;

use bytes::Bytes;

use crate::protocol::ApiKey;

/// The most that is believed: brokers cap it at `quota.window.size.seconds`, one second by default.
const LONGEST: Duration = Duration::from_secs(60);

/// How long the broker will not read after this answer (a frame without its size), if at all.
pub(super) fn mute(api: ApiKey, version: i16, frame: &Bytes) -> Option<Duration> {
    let (muting_from, flexible_from) = match api.0 {
        1 => (8, 12),
        2 => (3, 6),
        3 => (6, 9),
        8 => (4, 8),
        9 => (4, 6),
        10 => (2, 3),
        11 => (3, 6),
        12..=14 => (2, 4),
        22 => (1, 2),
        // Produce and ApiVersions carry the time behind their arrays.
        _ => return None,
    };
    if version < muting_from {
        return None;
    }
    // Correlation id, the empty tag buffer of a flexible header, then the time.
    let at = if version >= flexible_from { 5 } else { 4 };
    let millis = i32::from_be_bytes(*frame.get(at..)?.first_chunk()?);
    u64::try_from(millis)
        .ok()
        .filter(|millis| *millis > 0)
        .map(|millis| Duration::from_millis(millis).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_where_the_version_has_it() {
        let plain = Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 200]);
        let flexible = Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 0, 200]);
        let pause = Some(Duration::from_millis(200));
        assert_eq!(mute(ApiKey(1), 7, &plain), None);
        assert_eq!(mute(ApiKey(1), 8, &plain), pause);
        assert_eq!(mute(ApiKey(1), 12, &flexible), pause);
        assert_eq!(mute(ApiKey(1), 12, &flexible.slice(..6)), None);
        assert_eq!(mute(ApiKey(0), 9, &plain), None);
        let absurd = Bytes::from_static(&[0, 0, 0, 1, 0x7f, 0, 0, 0]);
        assert_eq!(mute(ApiKey(3), 6, &absurd), Some(LONGEST));
        let negative = Bytes::from_static(&[0, 0, 0, 1, 0xff, 0, 0, 0]);
        assert_eq!(mute(ApiKey(3), 6, &negative), None);
    }
}

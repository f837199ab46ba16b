/// Trips when most of what a partition finishes goes to the dead-letter topic: then something else is
/// wrong than those records, and the partition had better stop than pour itself out.
#[derive(Debug, Clone)]
pub(crate) struct Breaker {
    share: f64,
    /// The last records, the newest in the lowest bit; 1 for one that went there.
    recent: u128,
    seen: u32,
}

/// Records that are looked at.
const RECENT: u32 = 100;
/// A few that cannot be helped are no sign of anything.
const LEAST: u32 = 20;

impl Breaker {
    /// Trips at this share (0 to 1) of the last 100 finished records; at 1 or more never.
    pub(crate) fn new(share: f64) -> Self {
        Breaker { share, recent: 0, seen: 0 }
    }

    /// A record is finished, one way or the other; whether the breaker trips with it. It begins anew
    /// then, so that whoever resumes the partition has another 20.
    pub(crate) fn note(&mut self, dead: bool) -> bool {
        self.recent = (self.recent << 1 | u128::from(dead)) & ((1 << RECENT) - 1);
        self.seen = (self.seen + 1).min(RECENT);
        let dead_ones = self.recent.count_ones();
        let share = f64::from(dead_ones) / f64::from(self.seen);
        let trips = dead && self.share < 1.0 && dead_ones >= LEAST && share >= self.share;
        if trips {
            *self = Breaker::new(self.share);
        }
        trips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many of these it trips.
    fn trips_at(share: f64, finished: impl IntoIterator<Item = bool>) -> Option<usize> {
        let mut breaker = Breaker::new(share);
        finished.into_iter().position(|dead| breaker.note(dead)).map(|index| index + 1)
    }

    #[test]
    fn it_trips_at_the_share_and_at_no_less_than_twenty() {
        assert_eq!(trips_at(0.5, std::iter::repeat_n(true, 1000)), Some(20));
        assert_eq!(trips_at(0.5, (0..1000).map(|n| n % 2 == 0)), Some(39));
        assert_eq!(trips_at(0.01, std::iter::repeat_n(true, 19).chain([false; 200])), None);
    }

    #[test]
    fn a_share_below_the_limit_never_trips_it() {
        assert_eq!(trips_at(0.5, (0..100_000).map(|n| n % 3 == 0)), None);
        assert_eq!(trips_at(0.2, (0..100_000).map(|n| n % 5 == 4)), Some(100));
    }

    #[test]
    fn only_the_last_hundred_count() {
        // 1,000 good ones in front count no more than 100 would.
        assert_eq!(trips_at(0.5, std::iter::repeat_n(false, 1000).chain([true; 100])), Some(1050));
    }

    #[test]
    fn one_or_more_is_never_and_after_a_trip_it_begins_anew() {
        assert_eq!(trips_at(1.0, std::iter::repeat_n(true, 1000)), None);
        assert_eq!(trips_at(f64::NAN, std::iter::repeat_n(true, 1000)), None);
        let mut breaker = Breaker::new(0.5);
        let trips: Vec<_> = (1..=60).filter(|_| breaker.note(true)).collect();
        assert_eq!(trips, [20, 40, 60]);
    }
}

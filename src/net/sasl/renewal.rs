//! A login that does not last forever is renewed on the open connection before it ends (KIP-368).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Sasl;
use super::login::log_in;
use crate::error::{ErrorKind, LoginTrouble};
use crate::net::login_lane::LoginLane;
use crate::net::{BrokerVersions, share_by_chance};

/// Renews the login of a connection until the connection ends.
pub(in crate::net) fn keep_logged_in(
    sasl: Sasl,
    versions: Arc<BrokerVersions>,
    lane: LoginLane,
    lifetime: Duration,
    patience: Duration,
) {
    tokio::spawn(async move {
        let mut ends = Instant::now() + lifetime;
        let mut next = Instant::now() + when_to_renew(lifetime);
        while let Some(()) = open_until(&lane, next).await {
            match log_in(&sasl, &versions, &lane, patience).await {
                Ok(Some(lifetime)) => {
                    tracing::debug!(broker = %lane.broker(), ?lifetime, "login renewed");
                    ends = Instant::now() + lifetime;
                    next = Instant::now() + when_to_renew(lifetime);
                }
                Ok(None) => return,
                // No token for a moment: the one before is good for a while.
                Err(why)
                    if matches!(why.kind(), ErrorKind::Login(LoginTrouble::NoToken(_)))
                        && Instant::now() < ends =>
                {
                    tracing::warn!(broker = %lane.broker(), error = %why, "the login is not renewed yet");
                    next = Instant::now() + (ends - Instant::now()) / 4 + Duration::from_millis(100);
                }
                Err(why) => {
                    tracing::warn!(broker = %lane.broker(), error = %why, "the login was not renewed");
                    lane.close(why);
                    return;
                }
            }
        }
    });
}

/// At 85 to 95 % of a login's life, as the Java client does it: not all clients at once. Of a short one earlier, since a
/// fetch may have to be answered first; but brokers take no two logins within a second (KIP-368).
fn when_to_renew(lifetime: Duration) -> Duration {
    const ROOM: Duration = Duration::from_secs(2);
    const BETWEEN: Duration = Duration::from_millis(1100);
    let by_share = lifetime.mul_f64(0.85 + 0.1 * share_by_chance());
    let with_room = (lifetime.saturating_sub(ROOM)).max(lifetime / 2);
    by_share.min(with_room.max(BETWEEN))
}

/// Waits; `None` if the connection ends before.
async fn open_until(lane: &LoginLane, instant: Instant) -> Option<()> {
    let mut closed = pin!(lane.closed());
    let mut time = pin!(sleep_until(instant));
    poll_fn(|cx| {
        if closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        time.as_mut().poll(cx).map(Some)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_renewed_before_its_end_with_room_for_what_is_in_flight() {
        let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
        let table = [
            (second * 3 / 2, second, second * 3 / 2),
            (second * 3, second, second * 2),
            (second * 4, second * 2, second * 2),
            (second * 10, second * 8, second * 8),
            (second * 3600, second * 3060, second * 3420),
            (day * 365, day * 310, day * 347),
        ];
        for (lifetime, least, most) in table {
            for _ in 0..100 {
                let when = when_to_renew(lifetime);
                assert!(when >= least && when <= most, "{when:?} of {lifetime:?}");
            }
        }
    }
}

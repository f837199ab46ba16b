use std::fmt;

/// A topic id or directory id: 16 bytes, all zero for "none".
///
/// Shown as Kafka's tools show it: URL-safe base64 without padding.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// "No id".
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Whether this is "no id".
    pub fn is_zero(&self) -> bool {
        *self == Uuid::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let bits = u128::from_be_bytes(self.0);
        for sextet in 0..22 {
            // 22 sextets hold 132 bits: the last carries 2 bits of the id and 4 of padding.
            let at = 122 - 6 * sextet;
            let shifted = if at >= 0 { bits >> at } else { bits << -at };
            write!(f, "{}", char::from(ALPHABET[(shifted & 0x3f) as usize]))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn text_is_url_safe_base64_without_padding() {
        let id = Uuid(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());
        assert_eq!(id.to_string(), "ABEiM0RVZneImaq7zN3u_w");
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
    }
}

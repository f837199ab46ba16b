//! Which partition a record goes to.

/// Chooses partitions as the Java producer does: by the key's hash, and by turns without a key.
#[derive(Debug, Default)]
pub(super) struct Partitioner {
    turn: usize,
}

impl Partitioner {
    /// The place of the partition among `count`, which is not 0.
    pub(super) fn choose(&mut self, key: Option<&[u8]>, count: usize) -> usize {
        match key {
            Some(key) => (murmur2(key) & 0x7fff_ffff) as usize % count,
            None => {
                self.turn = self.turn.wrapping_add(1);
                (self.turn - 1) % count
            }
        }
    }
}

/// MurmurHash 2 with the seed of Kafka's producers.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_java_producers() {
        let table: &[(&[u8], i32)] = &[
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in table {
            assert_eq!(murmur2(key) as i32, *hash, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn records_without_a_key_take_turns() {
        let mut partitioner = Partitioner::default();
        let turns: Vec<usize> = (0..5).map(|_| partitioner.choose(None, 3)).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1]);
        assert_eq!(partitioner.choose(Some(b"21"), 7), partitioner.choose(Some(b"21"), 7));
    }
}

use std::collections::HashSet;

use super::{BatchHeader, ControlKind};
use crate::protocol::AbortedTransaction;

/// Tells the batches of aborted transactions from the others (read_committed, KIP-98).
///
/// Made anew for each response: the list in it covers only what was fetched.
#[derive(Debug, Clone, Default)]
pub struct AbortedFilter {
    /// Transactions that begin further on, the next one last.
    ahead: Vec<AbortedTransaction>,
    /// Producers with an aborted transaction that has begun and not ended.
    open: HashSet<i64>,
}

impl AbortedFilter {
    /// Takes the list of a response, in whatever order it is.
    pub fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        AbortedFilter { ahead: aborted, open: HashSet::new() }
    }

    /// Whether this data batch was aborted. To be asked about every batch, in order.
    pub fn is_aborted(&mut self, header: &BatchHeader) -> bool {
        self.advance(header.last_offset());
        header.is_transactional() && self.open.contains(&header.producer_id)
    }

    /// Takes note of a control batch: an abort marker ends the producer's transaction. A marker of
    /// a transaction that is not in the list changes nothing.
    pub fn end_of_transaction(&mut self, header: &BatchHeader, kind: ControlKind) {
        self.advance(header.last_offset());
        if kind == ControlKind::Abort {
            self.open.remove(&header.producer_id);
        }
    }

    fn advance(&mut self, last_offset: i64) {
        while let Some(next) = self.ahead.pop_if(|next| next.first_offset <= last_offset) {
            self.open.insert(next.producer_id);
        }
    }
}

//! Record sets: the contents of a RECORDS field or of a `.log` segment, in all three formats.
//!
//! A set is a row of *entries* with no count in front. Byte 16 of an entry is its magic: 0 and 1
//! are single messages, or wrappers that hold a compressed set as their value; 2 is a batch of
//! records (KIP-98). The magic of each entry decides how it is read, never the API version that
//! carried it: old formats stay on disk for years and are served unchanged.
//!
//! Two levels. [`RecordSet::batches`] gives owned [`Batch`]es: checked, inflated,
//! `Send + 'static`. [`Batch::records`] lends [`Record`]s out of them, lazily, without allocating.
//! [`RecordSet::entries`] stays below both: headers and untouched bytes, for mirrors.
//!
//! ```
//! use downspout::records::{NewRecord, Magic, ReadOptions, RecordSet, RecordSetWriter};
//!
//! let mut writer = RecordSetWriter::new(Magic::V2).base_offset(10);
//! writer.push(NewRecord::value(b"hello"))?;
//! let set = RecordSet::new(writer.finish()?);
//! for batch in set.batches(ReadOptions::default()) {
//!     let batch = batch?;
//!     for record in batch.records() {
//!         let record = record?;
//!         assert_eq!((record.offset(), record.value()), (10, Some(&b"hello"[..])));
//!     }
//! }
//! assert_eq!(set.next_offset(), Some(11));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod batches;
mod compression;
mod control;
mod corruption;
mod entry;
mod format;
mod indexed;
mod message;
mod record;
mod transactions;
mod write;

pub use batch::{Batch, Records};
pub use batches::{Batches, CrcCheck, Isolation, ReadOptions};
pub use compression::CodecError;
#[cfg(feature = "zstd")]
pub(crate) use compression::inflate;
pub use control::{Control, ControlKind};
pub use corruption::{Cause, Corruption};
pub use entry::{BatchHeader, Entries, Entry, RecordSet, Tail};
pub use format::{Codec, Magic, TimestampType};
pub use record::{Header, Headers, OwnedRecord, Record};
pub use transactions::AbortedFilter;
pub use write::{NewHeader, NewRecord, RecordSetWriter, WriteError};

//! Primitives of the wire: a bounded [`Reader`], a [`Writer`], varints, and the errors that say
//! which field, at which byte, and what was found there.
//!
//! Everything is big-endian. Layouts: the Kafka protocol guide, "Protocol Primitive Types".

mod error;
mod reader;
mod uuid;
mod varint;
mod writer;

pub use error::{DecodeError, EncodeError, Problem};
pub use reader::Reader;
pub use uuid::Uuid;
pub use varint::{take_varint, take_varlong};
pub use writer::Writer;

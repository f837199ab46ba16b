use bytes::Bytes;

use super::varint;
use super::{DecodeError, Problem, Uuid};

/// A slice with a position and the name of what is being read.
///
/// Every length is checked against what is left of *this* slice before it is used; a part with a
/// declared length is cut off first ([`Reader::sub`]) and read on its own, so that nothing can run
/// into what follows it.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    data: &'a [u8],
    position: usize,
    /// Where `data` starts in the outermost slice, for error messages.
    base: usize,
    field: &'static str,
    owner: Option<&'a Bytes>,
}

impl<'a> Reader<'a> {
    /// Reads a slice; byte strings are copied out of it.
    pub fn new(data: &'a [u8], field: &'static str) -> Self {
        Reader { data, position: 0, base: 0, field, owner: None }
    }

    /// Reads a frame; byte strings share its buffer.
    pub fn of_frame(frame: &'a Bytes, field: &'static str) -> Self {
        Reader { data: frame, position: 0, base: 0, field, owner: Some(frame) }
    }

    /// Names what is read next, for errors.
    #[inline]
    pub fn field(&mut self, field: &'static str) -> &mut Self {
        self.field = field;
        self
    }

    /// Bytes not read yet.
    #[inline]
    pub fn left(&self) -> usize {
        self.data.len() - self.position
    }

    /// Position in the outermost slice.
    pub fn position(&self) -> usize {
        self.base + self.position
    }

    /// An error about the field being read.
    pub fn error(&self, problem: Problem) -> DecodeError {
        DecodeError { field: self.field, position: self.position(), problem }
    }

    /// The next `size` bytes.
    #[inline]
    pub fn take(&mut self, size: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.data[self.position..];
        match rest.get(..size) {
            Some(taken) => {
                self.position += size;
                Ok(taken)
            }
            None => Err(self.error(Problem::CutShort { needed: size, left: rest.len() })),
        }
    }

    /// The next `size` bytes as a reader of their own.
    pub fn sub(&mut self, size: usize) -> Result<Reader<'a>, DecodeError> {
        let base = self.position();
        let data = self.take(size)?;
        Ok(Reader { data, position: 0, base, field: self.field, owner: self.owner })
    }

    /// An error unless everything was read.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.left() {
            0 => Ok(()),
            bytes => Err(self.error(Problem::Trailing { bytes })),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// BOOLEAN: zero is false, anything else true.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.take(1)?[0] != 0)
    }

    /// INT8.
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    /// INT16.
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// INT32.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// INT64.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// UUID.
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Ok(Uuid(self.array()?))
    }

    /// UNSIGNED_VARINT: at most 5 bytes, at most 32 bits.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let rest = &self.data[self.position..];
        match varint::unsigned(rest, 5) {
            Some((value, size)) => {
                let value = u32::try_from(value).map_err(|_| self.error(Problem::Varint))?;
                self.position += size;
                Ok(value)
            }
            None => Err(self.no_varint(5)),
        }
    }

    /// VARINT (zigzag), as in records.
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let mut rest = &self.data[self.position..];
        let value = varint::take_varint(&mut rest).ok_or_else(|| self.no_varint(5))?;
        self.position = self.data.len() - rest.len();
        Ok(value)
    }

    /// VARLONG (zigzag), as in records.
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let mut rest = &self.data[self.position..];
        let value = varint::take_varlong(&mut rest).ok_or_else(|| self.no_varint(10))?;
        self.position = self.data.len() - rest.len();
        Ok(value)
    }

    /// A byte string behind a VARINT length, `None` for null, as in records.
    pub fn varint_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let at = self.position;
        let declared = self.varint()?;
        match self.checked_length(declared.into()) {
            Ok(Some(length)) => self.take(length).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(DecodeError { position: self.base + at, ..error }),
        }
    }

    fn no_varint(&self, most: usize) -> DecodeError {
        let left = self.left();
        let unfinished = left < most && self.data[self.position..].iter().all(|byte| byte & 0x80 != 0);
        self.error(if unfinished { Problem::CutShort { needed: left + 1, left } } else { Problem::Varint })
    }

    /// The length of a string (`compact` or INT16), `None` for null.
    pub fn string_length(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        let declared = if compact { self.compact_length()? } else { i64::from(self.i16()?) };
        self.checked_length(declared)
    }

    /// The length of a byte string (`compact` or INT32), `None` for null.
    pub fn length(&mut self, compact: bool) -> Result<Option<usize>, DecodeError> {
        let declared = if compact { self.compact_length()? } else { i64::from(self.i32()?) };
        self.checked_length(declared)
    }

    /// The count of an array (`compact` or INT32) whose elements take at least `smallest` bytes
    /// each, `None` for null.
    ///
    /// A count of more elements than can be there is refused before anything is allocated for it.
    pub fn count(&mut self, compact: bool, smallest: usize) -> Result<Option<usize>, DecodeError> {
        let count = self.length(compact)?;
        match count {
            Some(declared) if declared.saturating_mul(smallest) > self.left() => {
                Err(self.error(Problem::Length { declared: declared as i64, left: self.left() }))
            }
            _ => Ok(count),
        }
    }

    fn compact_length(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from(self.unsigned_varint()?) - 1)
    }

    fn checked_length(&self, declared: i64) -> Result<Option<usize>, DecodeError> {
        match usize::try_from(declared) {
            Ok(length) if length <= self.left() => Ok(Some(length)),
            Err(_) if declared == -1 => Ok(None),
            _ => Err(self.error(Problem::Length { declared, left: self.left() })),
        }
    }

    /// UTF-8 text of `length` bytes.
    pub fn text(&mut self, length: usize) -> Result<&'a str, DecodeError> {
        let at = self.error(Problem::Utf8);
        std::str::from_utf8(self.take(length)?).map_err(|_| at)
    }

    /// `length` bytes, sharing the frame's buffer where there is one.
    pub fn bytes(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        let taken = self.take(length)?;
        Ok(match self.owner {
            Some(owner) => owner.slice_ref(taken),
            None => Bytes::copy_from_slice(taken),
        })
    }
}

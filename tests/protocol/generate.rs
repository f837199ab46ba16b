//! Valid message bodies of every API and version, made from the tables of fields by an encoder that
//! shares nothing with the crate's own.

use downspout::protocol::{APIS, Api, FieldSpec, Kind, Version};

/// Which of the two messages of an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Response,
}

/// Every API, side and version.
pub(crate) fn every_message() -> impl Iterator<Item = (&'static Api, Side, Version)> {
    APIS.iter().flat_map(|api| {
        let sides = [Side::Request, Side::Response];
        sides.into_iter().flat_map(move |side| {
            (api.versions.min..=api.versions.max).map(move |number| (api, side, api.version(number).unwrap()))
        })
    })
}

/// A body whose values are chosen by `entropy`: the same entropy, the same body.
pub(crate) fn body(api: &Api, side: Side, version: Version, entropy: &[u8]) -> Vec<u8> {
    let mut generator = Generator { dice: Dice { entropy, state: 0 }, version, out: Vec::new(), depth: 0 };
    generator.fields(match side {
        Side::Request => api.request,
        Side::Response => api.response,
    });
    generator.out
}

/// Bytes of the entropy, then a fixed stream that the entropy has seeded.
struct Dice<'a> {
    entropy: &'a [u8],
    state: u64,
}

impl Dice<'_> {
    fn byte(&mut self) -> u8 {
        let fresh = match self.entropy.split_first() {
            Some((first, rest)) => {
                self.entropy = rest;
                *first
            }
            None => 0,
        };
        self.state = (self.state ^ u64::from(fresh)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        fresh ^ (self.state >> 56) as u8
    }

    fn below(&mut self, limit: u8) -> usize {
        usize::from(self.byte() % limit)
    }
}

struct Generator<'a> {
    dice: Dice<'a>,
    version: Version,
    out: Vec<u8>,
    depth: u8,
}

impl Generator<'_> {
    fn fields(&mut self, fields: &[FieldSpec]) {
        let number = self.version.number;
        for spec in fields.iter().filter(|spec| spec.in_place(number)) {
            let nullable = spec.nullable.contains(number);
            self.value(spec.kind, nullable);
        }
        if !self.version.flexible {
            return;
        }
        let mut tagged: Vec<_> =
            fields.iter().filter(|spec| spec.tag.is_some() && spec.versions.contains(number)).collect();
        tagged.sort_by_key(|spec| spec.tag);
        let mut present = Vec::new();
        for spec in tagged {
            let outer = std::mem::take(&mut self.out);
            if self.dice.below(2) == 1 {
                self.value(spec.kind, spec.nullable.contains(number));
            }
            let value = std::mem::replace(&mut self.out, outer);
            // A writer leaves out what has its default.
            if !value.is_empty() && value != self.default_of(spec) {
                present.push((spec.tag.unwrap(), value));
            }
        }
        self.unsigned_varint(present.len());
        for (tag, value) in present {
            self.unsigned_varint(tag as usize);
            self.unsigned_varint(value.len());
            self.out.extend(value);
        }
    }

    fn default_of(&self, spec: &FieldSpec) -> Vec<u8> {
        let number = match spec.default.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).unwrap(),
            None => spec.default.parse().unwrap_or(0),
        };
        match spec.kind {
            Kind::Bool => vec![0],
            Kind::Int8 => (number as i8).to_be_bytes().into(),
            Kind::Int16 => (number as i16).to_be_bytes().into(),
            Kind::Int32 => (number as i32).to_be_bytes().into(),
            Kind::Int64 => number.to_be_bytes().into(),
            Kind::Uuid => vec![0; 16],
            Kind::Struct(fields) => {
                let number = self.version.number;
                let in_place = fields.iter().filter(|spec| spec.in_place(number));
                in_place.flat_map(|spec| self.default_of(spec)).chain([0]).collect()
            }
            // Null, or empty.
            _ => vec![u8::from(spec.nullable.max < 0)],
        }
    }

    fn value(&mut self, kind: Kind, nullable: bool) {
        let null = nullable && self.dice.below(4) == 0;
        match kind {
            Kind::Bool => {
                let value = self.dice.below(2) as u8;
                self.out.push(value);
            }
            Kind::Int8 => self.integer(1),
            Kind::Int16 => self.integer(2),
            Kind::Int32 => self.integer(4),
            Kind::Int64 => self.integer(8),
            Kind::Uuid => self.integer(16),
            Kind::String => {
                let choice = self.dice.below(6);
                let text = ["", "t", "a-topic", "größe", "日本", &"x".repeat(200)][choice].to_owned();
                self.length(if null { None } else { Some(text.len()) }, 2);
                if !null {
                    self.out.extend(text.bytes());
                }
            }
            Kind::Bytes => {
                let size = self.dice.below(40);
                self.length(if null { None } else { Some(size) }, 4);
                for _ in 0..if null { 0 } else { size } {
                    let byte = self.dice.byte();
                    self.out.push(byte);
                }
            }
            Kind::Array(element) => {
                let count = if self.depth > 3 { 0 } else { self.dice.below(4) };
                self.length(if null { None } else { Some(count) }, 4);
                self.depth += 1;
                for _ in 0..if null { 0 } else { count } {
                    self.value(*element, false);
                }
                self.depth -= 1;
            }
            Kind::Struct(fields) => {
                if nullable {
                    self.out.push(if null { 0xff } else { 1 });
                }
                if !null {
                    self.fields(fields);
                }
            }
        }
    }

    /// Small ones, −1, and anything.
    fn integer(&mut self, width: usize) {
        let value: Vec<u8> = match self.dice.below(4) {
            0 => vec![0xff; width],
            1 => (0..width).map(|_| self.dice.byte()).collect(),
            small => std::iter::repeat_n(0, width - 1).chain([small as u8]).collect(),
        };
        self.out.extend(value);
    }

    /// A length, in the width that it has before flexible versions; `None` for null.
    fn length(&mut self, length: Option<usize>, width: usize) {
        if self.version.flexible {
            self.unsigned_varint(length.map_or(0, |length| length + 1));
        } else {
            let bytes = length.map_or(-1, |length| length as i32).to_be_bytes();
            self.out.extend(&bytes[4 - width..]);
        }
    }

    fn unsigned_varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

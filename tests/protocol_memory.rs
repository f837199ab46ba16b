//! Reading a message takes memory in proportion to its bytes, whatever they are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "protocol/generate.rs"]
mod generate;

use allocation_counter::measure;
use bytes::Bytes;
use downspout::protocol::any::{decode_request_body, decode_response_body};
use downspout::protocol::{Api, FieldSpec, Kind, Version};
use generate::{Side, body, every_message};

/// The most bytes of memory per byte of a message, at the worst moment: 80 bytes for an element that
/// takes 3 (a group in OffsetFetch 8 without name and topics), twice while its array grows.
const MULTIPLE: u64 = 54;

/// What an error, a boxed message and the first element of each array may take on top.
const CONSTANT: u64 = 4096;

fn peak(api: &Api, side: Side, version: Version, body: &Bytes) -> u64 {
    let read = match side {
        Side::Request => decode_request_body,
        Side::Response => decode_response_body,
    };
    measure(|| drop(read(api.key, version.number, body))).bytes_max
}

fn check(api: &Api, side: Side, version: Version, body: Vec<u8>) -> f64 {
    let body = Bytes::from(body);
    let peak = peak(api, side, version, &body);
    let allowed = MULTIPLE * body.len() as u64 + CONSTANT;
    let place = format!("{} {side:?} v{}: {peak} for {} bytes", api.name, version.number, body.len());
    assert!(peak <= allowed, "{place}");
    peak as f64 / body.len() as f64
}

#[test]
fn arrays_of_the_smallest_elements_stay_under_the_multiple() {
    let mut worst = 0.0;
    for (api, side, version) in every_message() {
        let fields = if side == Side::Request { api.request } else { api.response };
        for elements in [1_000, 10_000, 12_345] {
            for which in 0.. {
                let mut flood = Flood { version, which, elements, out: Vec::new() };
                flood.fields(fields);
                if flood.which != usize::MAX {
                    break; // there is no such array
                }
                worst = f64::max(worst, check(api, side, version, flood.out));
            }
        }
    }
    assert!(worst * 1.5 > MULTIPLE as f64, "the multiple could be smaller: {worst}");
}

#[test]
fn counts_that_lie_take_no_more_than_the_bytes_that_are_there() {
    for (api, side, version) in every_message() {
        for count in [3, 100, 10_000, i32::MAX] {
            let mut body = vec![0; 64];
            for at in 0..40 {
                let mut lying = body.clone();
                lying.splice(at..at + 4, count.to_be_bytes());
                check(api, side, version, lying);
                body[at] = 0xff;
                check(api, side, version, body.clone());
                body[at] = 0;
            }
        }
    }
}

#[test]
fn any_valid_message_stays_under_the_multiple() {
    for seed in 0..100u8 {
        let entropy: Vec<u8> =
            (0..400u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed).collect();
        for (api, side, version) in every_message() {
            check(api, side, version, body(api, side, version, &entropy));
        }
    }
}

/// The smallest body with many elements in one of its arrays.
struct Flood {
    version: Version,
    /// Arrays to pass before the one that is filled; `usize::MAX` once it was.
    which: usize,
    elements: usize,
    out: Vec<u8>,
}

impl Flood {
    fn fields(&mut self, fields: &[FieldSpec]) {
        let number = self.version.number;
        for spec in fields.iter().filter(|spec| spec.in_place(number)) {
            if matches!(spec.kind, Kind::Struct(_)) && spec.nullable.contains(number) {
                self.out.push(1);
            }
            self.value(spec.kind);
        }
        if self.version.flexible {
            self.out.push(0);
        }
    }

    fn value(&mut self, kind: Kind) {
        match kind {
            Kind::Array(_) if self.which == usize::MAX => self.length(0, 4),
            Kind::Array(element) if self.which == 0 => {
                self.which = usize::MAX;
                self.length(self.elements, 4);
                (0..self.elements).for_each(|_| self.value(*element));
            }
            Kind::Array(element) => {
                self.which -= 1;
                self.length(1, 4);
                self.value(*element);
            }
            Kind::Struct(fields) => self.fields(fields),
            Kind::String => self.length(0, 2),
            Kind::Bytes => self.length(0, 4),
            Kind::Bool | Kind::Int8 => self.out.push(0),
            Kind::Int16 => self.out.extend([0; 2]),
            Kind::Int32 => self.out.extend([0; 4]),
            Kind::Int64 => self.out.extend([0; 8]),
            Kind::Uuid => self.out.extend([0; 16]),
        }
    }

    fn length(&mut self, length: usize, width: usize) {
        if self.version.flexible {
            let mut value = length + 1;
            while value >= 0x80 {
                self.out.push(value as u8 | 0x80);
                value >>= 7;
            }
            self.out.push(value as u8);
        } else {
            self.out.extend(&(length as i32).to_be_bytes()[4 - width..]);
        }
    }
}

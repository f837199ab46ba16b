//! A message as JSON: its fields in wire order, by the protocol guide's names.

use std::io::Write;

use downspout::protocol::Visitor;
use downspout::wire::Uuid;

use crate::output::Output;

/// Writes one object: the fields that [`Fields::integer`] and [`Fields::text`] add, and those of
/// the messages that visit it, all side by side.
pub(super) struct Fields<'a, W: Write> {
    output: &'a mut Output<W>,
    /// Structs that are open; the outermost one of a message has no braces of its own.
    depth: usize,
    /// Nothing stands yet in the array or object that is open.
    first: bool,
    /// A name was written, its value not yet.
    named: bool,
}

impl<'a, W: Write> Fields<'a, W> {
    pub(super) fn begin(output: &'a mut Output<W>) -> Self {
        output.raw(b"{");
        Fields { output, depth: 0, first: true, named: false }
    }

    pub(super) fn end(self) {
        self.output.raw(b"}\n");
    }

    pub(super) fn field(mut self, name: &'static str, value: impl FnOnce(&mut dyn Visitor)) -> Self {
        self.name(name);
        value(&mut self);
        self
    }

    /// What comes before every value.
    fn value(&mut self) -> &mut Output<W> {
        if !self.named && !self.first {
            self.output.raw(b",");
        }
        (self.first, self.named) = (false, false);
        self.output
    }
}

impl<W: Write> Visitor for Fields<'_, W> {
    fn null(&mut self) {
        self.value().raw(b"null");
    }

    fn boolean(&mut self, value: bool) {
        self.value().raw(if value { b"true" } else { b"false" });
    }

    fn integer(&mut self, value: i64) {
        self.value().integer(value);
    }

    fn text(&mut self, value: &str) {
        self.value().string(value);
    }

    fn bytes(&mut self, value: &[u8]) {
        self.value().bytes(value);
    }

    fn uuid(&mut self, value: Uuid) {
        self.value().string(&value.to_string());
    }

    fn begin_array(&mut self) {
        self.value().raw(b"[");
        self.first = true;
    }

    fn end_array(&mut self) {
        self.output.raw(b"]");
        self.first = false;
    }

    fn begin_struct(&mut self) {
        if self.depth > 0 {
            self.value().raw(b"{");
            self.first = true;
        }
        self.depth += 1;
    }

    fn name(&mut self, name: &'static str) {
        self.value().string(name);
        self.output.raw(b":");
        self.named = true;
    }

    fn end_struct(&mut self) {
        self.depth -= 1;
        if self.depth > 0 {
            self.output.raw(b"}");
            self.first = false;
        }
    }
}

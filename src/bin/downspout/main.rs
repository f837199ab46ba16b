//! The `downspout` command.
fn main() {}

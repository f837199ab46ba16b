//! `--exec`: records go to commands, and these answer.

mod line;
mod lines;
mod suspects;
mod talk;
#[cfg(test)]
mod tests;
mod work;

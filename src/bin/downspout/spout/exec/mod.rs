//! `--exec`: records go to commands, and these answer.

mod crew;
mod line;
mod lines;
mod process;
mod suspects;
mod talk;
#[cfg(test)]
mod tests;
mod work;

pub(super) use crew::run;
pub(super) use suspects::Suspects;
pub(super) use talk::{Counts, Phase, Shared, Terms};
pub(super) use work::{Source, Work, next};

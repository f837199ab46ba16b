//! `-t`: topics by name, or all that a regular expression matches.

use std::str::FromStr;
use std::time::Duration;

use downspout::client::{Cluster, TopicMetadata};
use downspout::discovery::near_names;
use downspout::{Error, ErrorKind};
use regex_lite::Regex;

use super::ConsumeArgs;
use crate::exit::{Exit, Failure};

/// A topic, or many.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// The one of this name.
    Named(String),
    /// Those that match, as librdkafka has it: what begins with ^ is a regular expression, and no
    /// topic's name begins so.
    Matching(Regex),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('^') {
            return Regex::new(text).map(Wanted::Matching).map_err(|why| why.to_string());
        }
        Ok(Wanted::Named(text.to_owned()))
    }
}

/// A topic that is there, with how many partitions it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) partitions: i32,
}

/// Looks up what is wanted, in the order of the arguments; each topic once.
pub(super) async fn find(cluster: &Cluster, args: &ConsumeArgs) -> Result<Vec<Topic>, Failure> {
    let mut topics: Vec<Topic> = Vec::new();
    for wanted in &args.topics {
        let found = match wanted {
            Wanted::Named(name) => vec![named(cluster, name, args.wait_for_topic).await?],
            Wanted::Matching(pattern) => matching(cluster, pattern).await?,
        };
        for topic in found {
            if topics.iter().all(|known| known.name != topic.name) {
                topics.push(topic);
            }
        }
    }
    Ok(topics)
}

async fn named(cluster: &Cluster, name: &str, wait: bool) -> Result<Topic, Error> {
    let partitions = match wait {
        true => cluster.wait_for_topic(name, Duration::MAX).await?,
        false => cluster.partitions(name).await?,
    };
    Ok(Topic { name: name.to_owned(), partitions: count(partitions.len()) })
}

async fn matching(cluster: &Cluster, pattern: &Regex) -> Result<Vec<Topic>, Failure> {
    let mut all = cluster.all_topics().await?.topics;
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let internal = pattern.as_str().starts_with("^__");
    let is_wanted = |topic: &&TopicMetadata| {
        let is_internal = topic.is_internal || topic.name.starts_with("__");
        (internal || !is_internal) && pattern.is_match(&topic.name)
    };
    let mut topics = Vec::new();
    for topic in all.iter().filter(is_wanted) {
        topics.push(match topic.partitions.len() {
            // It was made just now, or must not be seen.
            0 => named(cluster, &topic.name, false).await?,
            partitions => Topic { name: topic.name.clone(), partitions: count(partitions) },
        });
    }
    if topics.is_empty() {
        let near = near(pattern.as_str(), all.iter().map(|topic| topic.name.as_str()));
        let why = Error::new(ErrorKind::UnknownTopic { near });
        return Err(Failure::new(Exit::Unreachable, format_args!("topics {}: {why}", pattern.as_str())));
    }
    Ok(topics)
}

/// Names that begin nearly as those do that the pattern is for.
fn near<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let plain = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let begins: String = pattern.chars().skip(1).take_while(|letter| plain(*letter)).collect();
    let length = begins.chars().count();
    let is_near = |name: &&str| {
        let front: String = name.chars().take(length).collect();
        length > 0 && (front == begins || !near_names(&begins, [front.as_str()]).is_empty())
    };
    names.filter(is_near).take(3).map(str::to_owned).collect()
}

fn count(partitions: usize) -> i32 {
    i32::try_from(partitions).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_circumflex_is_an_expression() {
        assert!(matches!("clicks.*".parse(), Ok(Wanted::Named(name)) if name == "clicks.*"));
        assert!(matches!("^clicks-".parse(), Ok(Wanted::Matching(pattern)) if pattern.is_match("clicks-eu")));
        assert!("^(".parse::<Wanted>().is_err());
    }

    #[test]
    fn names_that_begin_nearly_so_are_near() {
        let names = ["clicks-eu", "clicks-us", "orders"];
        for (pattern, expected) in
            [("^clikcs-.*", &names[..2]), ("^clicks-[0-9]", &names[..2]), ("^.*s$", &[]), ("^payments", &[])]
        {
            assert_eq!(near(pattern, names.into_iter()), expected, "{pattern}");
        }
    }
}

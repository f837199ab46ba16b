//! The topics that a spout reads, by name and by pattern.

use downspout::client::Cluster;
use downspout::spout::{SpoutBuilder, TopicPattern};

use crate::consume::Wanted;
use crate::exit::Failure;

/// Tells a spout about them.
pub(super) fn tell(builder: SpoutBuilder, wanted: &[Wanted]) -> SpoutBuilder {
    wanted.iter().fold(builder, |builder, wanted| match wanted {
        Wanted::Named(name) => builder.topic(name),
        Wanted::Matching(_) => builder.topics_matching(pattern(wanted)),
    })
}

/// Their names, as far as they are there.
pub(super) async fn find(cluster: &Cluster, wanted: &[Wanted]) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = Vec::new();
    for wanted in wanted {
        match wanted {
            Wanted::Named(name) => names.push(name.clone()),
            Wanted::Matching(_) => {
                let pattern = pattern(wanted);
                let all = cluster.all_topics().await?.topics;
                names.extend(all.into_iter().map(|topic| topic.name).filter(|name| pattern.matches(name)));
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn pattern(wanted: &Wanted) -> TopicPattern {
    let wanted = wanted.clone();
    let label = match &wanted {
        Wanted::Named(name) => name.clone(),
        Wanted::Matching(pattern) => pattern.as_str().to_owned(),
    };
    TopicPattern::new(label, move |name| match &wanted {
        Wanted::Named(wanted) => wanted == name,
        Wanted::Matching(pattern) => pattern.is_match(name),
    })
}

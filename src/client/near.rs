//! Names that are close to one that does not exist.

/// Up to three of `names` that `wanted` may have been meant to be, the closest first.
pub(crate) fn near<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], ".");
    let target = plain(wanted);
    let allowed = (wanted.chars().count() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter(|name| *name != wanted)
        .map(|name| (distance(&target, &plain(name), allowed), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    found.sort();
    found.truncate(3);
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// Edits (insert, delete, replace) that turn `a` into `b`; anything above `most` may be more.
fn distance(a: &str, b: &str, most: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most {
        return most + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["clicks", "click", "orders", "order-events", "order.events.v2", "__consumer_offsets"];
        assert_eq!(near("clciks", names), ["clicks"]);
        assert_eq!(near("clickz", names), ["click", "clicks"]);
        assert_eq!(near("Clicks", names), ["clicks", "click"]);
        assert_eq!(near("order_events", names), ["order-events", "order.events.v2"]);
        assert_eq!(near("payments", names), [""; 0]);
        assert_eq!(near("x", names), [""; 0]);
        assert_eq!(near("clicks", ["clicks"]), [""; 0]);
    }
}

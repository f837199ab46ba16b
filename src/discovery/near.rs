/// "Did you mean …": up to three of `names` that `wanted` may have been meant to be, the closest
/// first.
///
/// A name is near if a few edits lead to it (inserted, deleted, replaced characters, swapped
/// neighbours), or if one contains the other; case does not count, and `-`, `_` and `.` are the same.
pub fn near_names<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let target = plain(wanted);
    let allowed = (wanted.chars().count() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter(|name| *name != wanted)
        .filter_map(|name| Some((distance(&target, &plain(name), allowed)?, name)))
        .collect();
    found.sort();
    found.dedup();
    found.truncate(3);
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace(['-', '_'], ".")
}

/// How far apart two names are; `None` for more than `most` edits, unless one contains the other.
fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let lengths = a.chars().count().abs_diff(b.chars().count());
    if (a.len() >= 3 && b.contains(a)) || (b.len() >= 3 && a.contains(b)) {
        return Some(lengths);
    }
    // A cluster may have a hundred thousand topics: most are told apart by their length.
    if lengths > most {
        return None;
    }
    Some(edits(a, b)).filter(|edits| *edits <= most)
}

/// Edits that turn `a` into `b`; a swap of neighbours is one.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["clicks", "click", "orders", "order-events", "order.events.v2", "__consumer_offsets"];
        let table: [(&str, &[&str]); 9] = [
            ("clciks", &["clicks", "click"]),
            ("clickz", &["click", "clicks"]),
            ("Clicks", &["clicks", "click"]),
            ("order_events", &["order-events", "order.events.v2"]),
            ("events", &["order-events", "order.events.v2"]),
            ("my-clicks-2", &["clicks", "click"]),
            ("payments", &[]),
            ("x", &[]),
            ("", &[]),
        ];
        for (wanted, near) in table {
            assert_eq!(near_names(wanted, names), near, "{wanted}");
        }
        assert_eq!(near_names("clicks", ["clicks"]), [""; 0]);
    }

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        assert_eq!((edits("clicks", "clciks"), edits("abc", "cab"), edits("", "ab")), (1, 2, 2));
        assert_eq!(near_names("ordres", ["orders", "odor"]), ["orders"]);
    }
}

//! "Did you mean …": names near to one that does not exist.

/// Up to three of `names` that are near to `wanted`, the nearest first.
fn near<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = wanted.to_lowercase();
    let most = (wanted.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let other = name.to_lowercase();
            let distance = distance(&lower, &other);
            let inside = lower.len() >= 3 && (other.contains(&lower) || lower.contains(&other));
            (distance <= most || inside).then_some((distance, name))
        })
        .collect();
    found.sort();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// " Did you mean …?" or nothing.
pub(crate) fn hint<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match near(wanted, names).as_slice() {
        [] => String::new(),
        [rest @ .., last] if !rest.is_empty() => format!(" Did you mean {} or {last}?", rest.join(", ")),
        [only, ..] => format!(" Did you mean {only}?"),
    }
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
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
    fn near_names_are_told_the_nearest_first() {
        let topics = ["clicks", "click", "orders", "clicks-dead", "payments"];
        assert_eq!(near("clikcs", topics), ["clicks", "click"]);
        assert_eq!(near("Orders", topics), ["orders"]);
        assert_eq!(near("dead", topics), ["clicks-dead"]);
        assert_eq!(near("zzz", topics), [""; 0]);
        assert_eq!(hint("clikcs", topics), " Did you mean clicks or click?");
        assert_eq!(hint("zzz", topics), "");
    }
}

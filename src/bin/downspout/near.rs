//! "Did you mean …": names near to one that does not exist.

use downspout::discovery::near_names;

/// " Did you mean …?" or nothing.
pub(crate) fn hint<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match near_names(wanted, names).as_slice() {
        [] => String::new(),
        [rest @ .., last] if !rest.is_empty() => format!(" Did you mean {} or {last}?", rest.join(", ")),
        [only, ..] => format!(" Did you mean {only}?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_told_the_nearest_first() {
        let topics = ["clicks", "click", "orders", "clicks-dead", "payments"];
        assert_eq!(hint("clikcs", topics), " Did you mean clicks or click?");
        assert_eq!(hint("Orders", topics), " Did you mean orders?");
        assert_eq!(hint("zzz", topics), "");
    }
}

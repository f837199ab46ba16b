//! `-o`: where to begin and where to stop, written as kcat writes it.

use std::str::FromStr;

/// A bound of what is read from each partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The first record there is.
    Beginning,
    /// After the last record there is.
    End,
    /// This offset.
    Offset(i64),
    /// So many records before the end.
    Last(i64),
    /// The first record that is not older, in ms since 1970.
    Since(i64),
    /// Where to stop: the first record that is not older, in ms since 1970.
    Until(i64),
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| {
            text.parse().ok().filter(|ms| *ms >= 0).ok_or_else(|| {
                format!("{text:?} is no time: give milliseconds since 1970, as in s@1700000000000")
            })
        };
        match text {
            "beginning" | "earliest" | "smallest" => Ok(Bound::Beginning),
            "end" | "latest" | "largest" => Ok(Bound::End),
            "stored" => Err("there is no stored offset: this command keeps none".into()),
            _ => match text.split_once('@') {
                Some(("s", ms)) => time(ms).map(Bound::Since),
                Some(("e", ms)) => time(ms).map(Bound::Until),
                _ => match text.parse::<i64>() {
                    Ok(offset) if offset >= 0 && !text.starts_with('-') => Ok(Bound::Offset(offset)),
                    Ok(count) if count != i64::MIN => Ok(Bound::Last(-count)),
                    _ => Err("expected beginning, end, N, -N, s@MS or e@MS".into()),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bound::{self, *};

    #[test]
    fn the_forms_of_kcat() {
        let table = [
            ("beginning", Beginning),
            ("end", End),
            ("0", Offset(0)),
            ("42", Offset(42)),
            ("-5", Last(5)),
            ("-0", Last(0)),
            ("s@1000", Since(1000)),
            ("e@2000", Until(2000)),
        ];
        for (text, bound) in table {
            assert_eq!(text.parse(), Ok(bound), "{text}");
        }
        for text in ["", "stored", "begin", "1.5", "s@", "s@-1", "x@1", "-9223372036854775808"] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }
}

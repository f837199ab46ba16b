//! Paths of nodes.

use crate::error::{Error, Result};

/// What ZooKeeper would refuse is refused before it is asked.
pub(crate) fn check(path: &str) -> Result<()> {
    let wrong = |why: &str| Err(Error::config(format!("{path:?} is no path in ZooKeeper: {why}")));
    let Some(rest) = path.strip_prefix('/') else { return wrong("it does not begin with /") };
    if rest.is_empty() {
        return Ok(());
    }
    for part in rest.split('/') {
        match part {
            "" => return wrong("it has an empty part, or / at its end"),
            "." | ".." => return wrong("it has . or .. in it"),
            _ if part.contains(|c: char| c.is_control()) => return wrong("it has control characters in it"),
            _ => {}
        }
    }
    Ok(())
}

/// The node above; `None` above the root.
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        at => Some(&path[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_found_in_any_script() {
        for (path, above) in [
            ("/", None),
            ("/a", Some("/")),
            ("/größe/ключ", Some("/größe")),
            ("/größe/ключ/数", Some("/größe/ключ")),
        ] {
            check(path).unwrap();
            assert_eq!(parent(path), above, "{path}");
        }
    }

    #[test]
    fn what_zookeeper_would_refuse_is_not_asked() {
        for path in ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a\0"] {
            check(path).unwrap_err();
        }
    }
}

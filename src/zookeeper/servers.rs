//! Which servers, and below which node: `host:port,host:port/chroot`.

use std::fmt;
use std::str::FromStr;

use super::path;
use crate::error::{Error, Result};

/// The port of a server that is named without one.
const PORT: u16 = 2181;

/// An ensemble, as it is named to its clients: `host:port,host:port/chroot`, with `zk://` in front or not. Without a
/// port it is 2181; IPv6 addresses stand in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    hosts: Vec<(String, u16)>,
    chroot: String,
}

impl Servers {
    /// Hosts with their ports, in the order they were given.
    pub fn hosts(&self) -> &[(String, u16)] {
        &self.hosts
    }

    /// The node below which all paths lie; empty for none.
    pub fn chroot(&self) -> &str {
        &self.chroot
    }
}

impl FromStr for Servers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::config(format!("ZooKeeper servers {text:?}: {why}"));
        let list = text.trim();
        let list = list.strip_prefix("zk://").unwrap_or(list);
        let (list, chroot) = list.split_at(list.find('/').unwrap_or(list.len()));
        if chroot.contains(',') {
            return Err(wrong(
                "the chroot is named once, after the last server: host1:2181,host2:2181/chroot",
            ));
        }
        let chroot = chroot.trim_end_matches('/');
        if !chroot.is_empty() {
            path::check(chroot).map_err(|why| wrong(&why.to_string()))?;
        }
        let hosts = list.split(',').map(|part| host(part.trim()).map_err(|why| wrong(&why)));
        Ok(Servers { hosts: hosts.collect::<Result<_>>()?, chroot: chroot.to_owned() })
    }
}

fn host(part: &str) -> Result<(String, u16), String> {
    let (name, port) = match part.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or_else(|| format!("{part:?} lacks its ]"))?;
            match rest {
                "" => (name, None),
                rest => {
                    let port = rest.strip_prefix(':');
                    (name, Some(port.ok_or_else(|| format!("{rest:?} stands where :port belongs"))?))
                }
            }
        }
        None if part.matches(':').count() > 1 => {
            return Err(format!("{part:?}: write an IPv6 address in brackets, [::1]:2181"));
        }
        None => part.split_once(':').map_or((part, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(format!("{part:?} is no host; name them as host:port,host:port/chroot"));
    }
    let port = match port {
        None => PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("{port:?} is no port (1 to 65535)")),
        },
    };
    Ok((name.to_owned(), port))
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("zk://")?;
        for (i, (host, port)) in self.hosts.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            match host.contains(':') {
                true => write!(f, "[{host}]:{port}")?,
                false => write!(f, "{host}:{port}")?,
            }
        }
        f.write_str(&self.chroot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_498_sk31_servers_and_chroot_are_read_and_shown_as_one_string() {
        for (text, shown, chroot) in [
            ("a", "zk://a:2181", ""),
            ("a:1,b:2", "zk://a:1,b:2", ""),
            (" zk://a:1, b:2/kafka ", "zk://a:1,b:2/kafka", "/kafka"),
            ("a:1/kafka/prod/", "zk://a:1/kafka/prod", "/kafka/prod"),
            ("a:1/", "zk://a:1", ""),
            ("[::1],[fe80::1]:2182/x", "zk://[::1]:2181,[fe80::1]:2182/x", "/x"),
            ("a/größe", "zk://a:2181/größe", "/größe"),
        ] {
            let servers: Servers = text.parse().unwrap();
            assert_eq!((servers.to_string().as_str(), servers.chroot()), (shown, chroot), "{text}");
            assert_eq!(servers.to_string().parse::<Servers>().unwrap(), servers);
        }
    }

    #[test]
    fn what_names_no_servers_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "is no host"),
            ("a:1,,b:2", "is no host"),
            ("/kafka", "is no host"),
            ("a:x", "\"x\" is no port"),
            ("a:0", "is no port"),
            ("a:70000", "is no port"),
            ("a:1/x,b:1/x", "after the last server"),
            ("::1:2181", "in brackets"),
            ("[::1", "lacks its ]"),
            ("[::1]2181", "where :port belongs"),
            ("a:1//x", "empty part"),
            ("a b:1", "is no host"),
        ] {
            let error = text.parse::<Servers>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

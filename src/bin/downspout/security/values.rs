//! Values that stand elsewhere, so that no secret is needed on a command line; and how values are shown.

use std::path::Path;

use super::names;
use crate::properties_file;

/// A value with what its `${…}` stand for: an environment variable, a file, a key of a properties file, a file in a
/// directory (KIP-297, KIP-421).
pub(crate) fn resolve(value: &str) -> Result<String, String> {
    resolve_with(value, &|name| std::env::var(name).ok())
}

fn resolve_with(value: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut resolved = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let (before, placeholder) = rest.split_at(at);
        resolved.push_str(before);
        let Some((inside, after)) = placeholder[2..].split_once('}') else {
            return Err("a ${ without its }".to_owned());
        };
        resolved.push_str(&one(inside, variable)?);
        rest = after;
    }
    Ok(resolved + rest)
}

fn one(inside: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (kind, name) = inside.split_once(':').unwrap_or((inside, ""));
    match kind {
        "env" if !name.is_empty() => {
            variable(name).ok_or_else(|| format!("the environment has no variable {name}"))
        }
        "file" if !name.is_empty() => match name.rsplit_once(':') {
            // `C:\secret` has a colon too.
            Some((path, key)) if !key.starts_with('\\') && !Path::new(name).exists() => {
                let text = read(Path::new(path))?;
                let found = properties_file::parse(&text).into_iter().rev().find(|(name, _)| name == key);
                found.map(|(_, value)| value).ok_or_else(|| format!("{path} has no key {key}"))
            }
            _ => read(Path::new(name)),
        },
        "directory" => match name.rsplit_once(':') {
            Some((dir, file)) => read(&Path::new(dir).join(file)),
            None => Err("expected ${directory:DIR:FILE}".to_owned()),
        },
        _ => Err("expected ${env:NAME}, ${file:PATH}, ${file:PATH:KEY} or ${directory:DIR:FILE}".to_owned()),
    }
}

/// A file's text without the end of its last line.
fn read(path: &Path) -> Result<String, String> {
    let text =
        std::fs::read_to_string(path).map_err(|why| format!("{} cannot be read: {why}", path.display()))?;
    Ok(text
        .strip_suffix('\n')
        .map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text))
        .to_owned())
}

/// `name=value` as it may be shown: a secret's value only where it says where the secret is.
pub(crate) fn shown(property: &str) -> String {
    match property.split_once('=') {
        Some((name, value)) if names::is_secret(name.strip_prefix("topic.").unwrap_or(name)) => {
            let says_where =
                value.starts_with("${") && value.ends_with('}') && !value[2..value.len() - 1].contains('}');
            if says_where || value.is_empty() { property.to_owned() } else { format!("{name}=***") }
        }
        Some(_) => property.to_owned(),
        // What was meant may be a secret all the same.
        None => property.split([':', ' ']).next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_stand_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "s3cret \n").unwrap();
        let properties = dir.path().join("my.properties");
        std::fs::write(&properties, "a=1\npassword = from a file\n").unwrap();
        let variable = |name: &str| (name == "PASSWORD").then(|| "from env".to_owned());
        let (file, properties, dir) = (file.display(), properties.display(), dir.path().display());
        let table = [
            ("plain".to_owned(), Ok("plain")),
            ("${env:PASSWORD}".to_owned(), Ok("from env")),
            ("a ${env:PASSWORD} b ${env:PASSWORD}".to_owned(), Ok("a from env b from env")),
            (format!("${{file:{file}}}"), Ok("s3cret ")),
            (format!("${{file:{properties}:password}}"), Ok("from a file")),
            (format!("${{directory:{dir}:password}}"), Ok("s3cret ")),
            ("${env:NONE}".to_owned(), Err("no variable NONE")),
            (format!("${{file:{properties}:none}}"), Err("no key none")),
            ("${file:/no/such/file}".to_owned(), Err("cannot be read")),
            ("${vault:x}".to_owned(), Err("expected ${env:NAME}")),
            ("${env:".to_owned(), Err("without its }")),
        ];
        for (value, expected) in table {
            match (resolve_with(&value, &variable), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{value}"),
                (Err(why), Err(words)) => assert!(why.contains(words), "{value}: {why}"),
                (found, _) => panic!("{value}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let table = [
            ("client.id=me", "client.id=me"),
            ("sasl.username=alice", "sasl.username=alice"),
            ("sasl.password=s3cret", "sasl.password=***"),
            ("sasl.pasword=s3cret", "sasl.pasword=***"),
            ("ssl.key.pem=-----BEGIN", "ssl.key.pem=***"),
            ("ssl.ca.location=ca.pem", "ssl.ca.location=ca.pem"),
            ("sasl.jaas.config=x password=\"s3cret\";", "sasl.jaas.config=***"),
            ("sasl.password=${env:PASSWORD}", "sasl.password=${env:PASSWORD}"),
            ("sasl.password=${env:A}s3cret${env:B}", "sasl.password=***"),
            ("sasl.password:s3cret", "sasl.password"),
        ];
        for (property, expected) in table {
            assert_eq!(shown(property), expected);
        }
    }
}

//! `sasl.jaas.config`: a Java login module and its options.

use std::collections::BTreeMap;

/// `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";`
pub(super) struct Jaas {
    /// Without its package.
    pub(super) module: String,
    options: BTreeMap<String, String>,
}

impl Jaas {
    /// Errors name no value.
    pub(super) fn parse(text: &str) -> Result<Jaas, String> {
        let mut words = Words(text.trim());
        let module = words.next_word()?.ok_or("a login module is missing")?;
        let flag = words.next_word()?.unwrap_or_default();
        if !["required", "requisite", "sufficient", "optional"].contains(&flag.to_ascii_lowercase().as_str())
        {
            return Err("behind the login module there must be `required`".to_owned());
        }
        let mut options = BTreeMap::new();
        while let Some(name) = words.next_word()? {
            if !words.eats('=') {
                return Err(format!(
                    "an option has the form name=\"value\"; there are {} before it",
                    options.len()
                ));
            }
            let value = words.next_word()?.ok_or_else(|| format!("the value of {name} is missing"))?;
            options.insert(name, value);
        }
        if !words.eats(';') {
            return Err("the ; at the end is missing".to_owned());
        }
        let module = module.rsplit('.').next().unwrap_or_default().to_owned();
        Ok(Jaas { module, options })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Options whose names begin so, without that beginning.
    pub(super) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.options
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

struct Words<'a>(&'a str);

impl Words<'_> {
    fn eats(&mut self, wanted: char) -> bool {
        match self.0.trim_start().strip_prefix(wanted) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// A word, quoted or not; `None` at the end or at `;`.
    fn next_word(&mut self) -> Result<Option<String>, String> {
        self.0 = self.0.trim_start();
        let Some(first) = self.0.chars().next().filter(|c| *c != ';') else { return Ok(None) };
        if first != '"' && first != '\'' {
            let end =
                self.0.find(|c: char| c.is_whitespace() || c == '=' || c == ';').unwrap_or(self.0.len());
            let (word, rest) = self.0.split_at(end);
            self.0 = rest;
            return if word.is_empty() {
                Err("there is a = without a name".to_owned())
            } else {
                Ok(Some(word.to_owned()))
            };
        }
        let mut word = String::new();
        let mut characters = self.0.char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => word.extend(characters.next().map(|(_, escaped)| match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                })),
                c if c == first => {
                    self.0 = &self.0[at + 1..];
                    return Ok(Some(word));
                }
                c => word.push(c),
            }
        }
        Err("a quotation mark is not closed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_java_reads_them() {
        let jaas = Jaas::parse(
            "org.apache.kafka.common.security.plain.PlainLoginModule required \n username=\"alice\" password='p \\'=;\\\\' debug=true ;",
        )
        .unwrap();
        assert_eq!(jaas.module, "PlainLoginModule");
        assert_eq!(jaas.get("username"), Some("alice"));
        assert_eq!(jaas.get("password"), Some("p '=;\\"));
        assert_eq!(jaas.get("debug"), Some("true"));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_values() {
        for text in [
            "",
            "M",
            "M username=\"s3cret\";",
            "M required username=\"s3cret\"",
            "M required username=\"s3cret;",
            "M required \"s3cret\";",
            "M required username=;",
            "M required =s3cret;",
        ] {
            let Err(why) = Jaas::parse(text) else { panic!("{text}") };
            assert!(!why.contains("s3cret"), "{why}");
        }
    }
}

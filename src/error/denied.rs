//! What somebody may not do: the operation and the resource of Kafka's access lists, and who.

use std::fmt;

use crate::protocol::{ApiKey, ErrorCode};

/// A right that is missing.
pub(super) struct Denied<'a> {
    operation: &'static str,
    resource: &'static str,
    name: Option<&'a str>,
    principal: Option<&'a str>,
    code: ErrorCode,
}

impl<'a> Denied<'a> {
    /// What a refusal of that kind is about; `None` if the code says something else.
    pub(super) fn of(
        code: ErrorCode,
        api: Option<ApiKey>,
        topic: Option<&'a str>,
        group: Option<&'a str>,
        principal: Option<&'a str>,
    ) -> Option<Self> {
        let (resource, name) = match code {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => ("topic", topic),
            ErrorCode::GROUP_AUTHORIZATION_FAILED => ("group", group),
            ErrorCode::CLUSTER_AUTHORIZATION_FAILED => ("cluster", None),
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => ("transactional id", None),
            _ => return None,
        };
        // As the protocol's documentation has them for each API.
        let operation = match (api, resource) {
            (Some(ApiKey::PRODUCE), "cluster") | (Some(ApiKey::INIT_PRODUCER_ID), "cluster") => {
                "IdempotentWrite"
            }
            (Some(ApiKey::PRODUCE | ApiKey::INIT_PRODUCER_ID), _) => "Write",
            (Some(ApiKey::FETCH), "cluster") => "ClusterAction",
            (
                Some(
                    ApiKey::FETCH
                    | ApiKey::OFFSET_COMMIT
                    | ApiKey::JOIN_GROUP
                    | ApiKey::SYNC_GROUP
                    | ApiKey::HEARTBEAT
                    | ApiKey::LEAVE_GROUP
                    | ApiKey::CONSUMER_GROUP_HEARTBEAT,
                ),
                _,
            ) => "Read",
            (Some(ApiKey::METADATA), "cluster") => "Create",
            _ => "Describe",
        };
        Some(Denied { operation, resource, name, principal, code })
    }
}

impl fmt::Display for Denied<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denied { operation, resource, name, principal, code } = self;
        let who = principal.unwrap_or("this client's principal");
        let name_of = name.map_or(String::new(), |name| format!(" {name}"));
        write!(f, "{who} may not {operation} the {resource}{name_of} (the broker answers {code}); ")?;
        let option = match *resource {
            "cluster" => "--cluster".to_owned(),
            "transactional id" => "--transactional-id ID".to_owned(),
            kind => format!("--{kind} {}", name.unwrap_or("NAME")),
        };
        let principal = principal.unwrap_or("User:NAME");
        write!(
            f,
            "grant it (kafka-acls --add --allow-principal '{principal}' --operation {operation} {option}), or connect as somebody who may"
        )
    }
}

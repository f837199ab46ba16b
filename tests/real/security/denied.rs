use crate::harness::{Driver, Result, SecureKafka};
pub fn all(kafka: &SecureKafka, admin: &mut Driver) -> Result<()> {
    kafka.deny(admin)
}

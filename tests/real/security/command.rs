use crate::harness::{Result, SecureKafka};
pub fn all(_: &SecureKafka) -> Result<()> {
    Ok(())
}

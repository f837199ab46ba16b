use super::builder::SpoutBuilder;
use super::spout::Spout;
use crate::error::Result;

pub(super) async fn start(builder: SpoutBuilder, id: String) -> Result<Spout> {
    let _ = (builder, id);
    Err(crate::error::Error::config("not built yet"))
}

//! From one layout in ZooKeeper to the other, in one place.

use std::io::{self, Write};

use downspout::checkpoint::{Access, Layout};

use super::MigrateArgs;
use crate::checkpoint::change::{ChangeArgs, command, hint, save};
use crate::checkpoint::place::{Place, load};
use crate::exit::{Exit, Failure};
use crate::progress::say;
use crate::store::StoreName;

/// Documents of one id that go to the other layout.
pub(super) struct Move {
    to: Place,
    layout: Layout,
    /// The command that moves them back.
    back: String,
}

impl Move {
    /// If it is one.
    pub(super) fn of(args: &MigrateArgs) -> Result<Option<Self>, Failure> {
        let (StoreName::ZooKeeper(from), StoreName::ZooKeeper(to)) = (&args.from, &args.to) else {
            return Ok(None);
        };
        let id = args.to_id.as_ref().or(args.from_id.as_ref());
        let Some(layout) = to.layout.filter(|_| from.is_same_place(to) && id == args.from_id.as_ref()) else {
            return Ok(None);
        };
        let mut back = to.clone();
        back.layout = Some(match layout {
            Layout::OneTopic => Layout::ByTopic,
            Layout::ByTopic => Layout::OneTopic,
        });
        let place = Place::new(args.connect.clone(), args.to.clone(), id.cloned());
        let (from, back) = (args.to.to_string(), StoreName::ZooKeeper(back).to_string());
        let words = ["downspout", "checkpoint", "migrate", "--from", &from, "--from-id", place.id()?];
        let words = words.into_iter().chain(["--to", &back, "--execute"]).map(str::to_owned);
        let back = command(&words.collect::<Vec<_>>());
        Ok(Some(Move { to: place, layout, back }))
    }

    pub(super) async fn run(&self, args: &ChangeArgs) -> Result<Exit, Failure> {
        let reader = self.to.open(None, Access::Read).await?;
        let partitions = reader.list().await?;
        let found = load(&*reader, &partitions).await?;
        reader.close().await;
        let found = || partitions.iter().zip(found.iter().map(|found| found.checkpoint.as_ref()));
        let name = match self.layout {
            Layout::OneTopic => "the layout for one topic",
            Layout::ByTopic => "the layout by topic",
        };
        let mut out = io::stdout().lock();
        for (partition, checkpoint) in found() {
            let offset = checkpoint.map_or_else(|| "none".to_owned(), |found| found.offset.to_string());
            writeln!(out, "{partition}: {offset} goes to {name}").map_err(Failure::output)?;
        }
        drop(out);
        if !args.execute {
            say("nothing was changed: add --execute to do it");
            return Ok(Exit::Ok);
        }
        let editor = self.to.open(None, Access::Edit { force: args.force }).await.map_err(hint)?;
        let saved = save(&self.to, args, found())?;
        say(&format!("what was there is in {}; to move it back: {}", saved.display(), self.back));
        // Who may write moves what it reads.
        let moved = load(&*editor, &partitions).await;
        editor.close().await;
        moved.map(|_| Exit::Ok)
    }
}

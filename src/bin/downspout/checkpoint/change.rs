//! Carrying out a plan: say it, save what is there, write, tell how to undo it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use downspout::checkpoint::{Access, Checkpoint, Checkpoints, Extras, Offer, Owner};
use downspout::client::{Cluster, TopicPartition};

use super::export;
use super::place::{Place, load};
use super::plan::{self, Change};
use crate::exit::{Exit, Failure};
use crate::progress::say;

/// How a change is made.
#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    /// Do it; without this, what would be done is said, and nothing is changed
    #[arg(long)]
    pub(super) execute: bool,
    /// Even while an owner is alive. It will stop these partitions when it notices
    #[arg(long)]
    pub(super) force: bool,
    /// Where to save what is there now [default: a new file in the current directory]
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
}

/// A position set by hand, in the name of who had it.
pub(super) fn by_hand(offset: i64, before: Option<&Checkpoint>) -> Checkpoint {
    let owner = before.and_then(|before| before.owner.clone());
    let owner = owner.map(|owner| Owner { run: String::new(), ..owner });
    Checkpoint { owner, broker: before.and_then(|before| before.broker.clone()), ..Checkpoint::at(offset) }
}

/// Says what setting these partitions comes to, and does it if it is to be done.
pub(super) async fn change(
    place: &Place,
    args: &ChangeArgs,
    cluster: &Cluster,
    wanted: Vec<(TopicPartition, Option<Wanted>)>,
) -> Result<Exit, Failure> {
    let partitions: Vec<TopicPartition> = wanted.iter().map(|(partition, _)| partition.clone()).collect();
    let logs = plan::bounds(cluster, &partitions).await?;
    let reader = place.open(Some(cluster), Access::Read).await?;
    let found = load(&*reader, &partitions).await?;
    reader.close().await;
    let mut changes = Vec::new();
    for (((partition, wanted), log), found) in wanted.into_iter().zip(logs).zip(found) {
        let from = found.checkpoint;
        let to = wanted.map(|wanted| match wanted {
            Wanted::Offset(offset) => by_hand(offset, from.as_ref()),
            Wanted::Whole(checkpoint) => *checkpoint,
        });
        changes.push(Change { partition, from, to, log });
    }
    changes.iter().try_for_each(Change::check)?;
    let mut out = io::stdout().lock();
    for change in &changes {
        writeln!(out, "{}", change.words()).map_err(Failure::output)?;
    }
    drop(out);
    changes.retain(Change::is_one);
    if changes.is_empty() {
        say("nothing to change");
        return Ok(Exit::Ok);
    }
    if !args.execute {
        say("nothing was changed: add --execute to do it");
        return Ok(Exit::Ok);
    }
    execute(place, args, cluster, &changes).await
}

/// What a partition is to be set to.
#[derive(Debug)]
pub(super) enum Wanted {
    Offset(i64),
    Whole(Box<Checkpoint>),
}

async fn execute(
    place: &Place,
    args: &ChangeArgs,
    cluster: &Cluster,
    changes: &[Change],
) -> Result<Exit, Failure> {
    let editor = place.open(Some(cluster), Access::Edit { force: args.force }).await.map_err(hint)?;
    let exit = write(place, args, &*editor, changes).await;
    editor.close().await;
    exit
}

async fn write(
    place: &Place,
    args: &ChangeArgs,
    editor: &dyn Checkpoints,
    changes: &[Change],
) -> Result<Exit, Failure> {
    let partitions: Vec<TopicPartition> = changes.iter().map(|change| change.partition.clone()).collect();
    let found = load(editor, &partitions).await?;
    let offset = |checkpoint: &Option<Checkpoint>| checkpoint.as_ref().map(|checkpoint| checkpoint.offset);
    for (change, found) in changes.iter().zip(&found) {
        if offset(&change.from) != offset(&found.checkpoint) {
            let why = format!("{}: its position has changed meanwhile: run this again", change.partition);
            return Err(Failure::new(Exit::Owner, why));
        }
    }
    let saved = save(place, args, changes.iter().map(|change| (&change.partition, change.from.as_ref())))?;
    // Said before anything is written: perhaps this is interrupted.
    say(&format!("what was there is in {}; to bring it back: {}", saved.display(), undo(place, &saved)));
    let (mut failed, mut exit) = (0, Exit::Ok);
    let (offered, removed): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|change| change.to.is_some());
    let offers: Vec<Offer> = offered
        .iter()
        .filter_map(|change| {
            let partition = change.partition.clone();
            Some(Offer { partition, epoch: 0, checkpoint: change.to.clone()?, reset: true })
        })
        .collect();
    let gone: Vec<TopicPartition> = removed.iter().map(|change| change.partition.clone()).collect();
    let mut outcomes: Vec<Option<downspout::Error>> =
        editor.commit(&offers).await.into_iter().map(Result::err).collect();
    if !gone.is_empty() {
        outcomes.extend(editor.remove(&gone).await.into_iter().map(Result::err));
    }
    for why in outcomes.into_iter().flatten() {
        let Failure { exit: code, message } = hint(why.into());
        say(&message.unwrap_or_default());
        (failed, exit) = (failed + 1, code);
    }
    if failed > 0 && failed < changes.len() {
        exit = Exit::Partly;
    }
    Ok(exit)
}

/// Says what `--force` is for.
pub(super) fn hint(failure: Failure) -> Failure {
    match (failure.exit, failure.message) {
        (Exit::Owner, Some(message)) => {
            Failure::new(Exit::Owner, format_args!("{message}; if it does not run any more, add --force"))
        }
        (exit, message) => Failure { exit, message },
    }
}

/// Saves what is there, to the disk.
pub(super) fn save<'a>(
    place: &Place,
    args: &ChangeArgs,
    found: impl Iterator<Item = (&'a TopicPartition, Option<&'a Checkpoint>)>,
) -> Result<PathBuf, Failure> {
    let path = match &args.backup {
        Some(path) => path.clone(),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
            let id: String = place.id()?.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
            PathBuf::from(format!("downspout-checkpoints-{id}-{now}.jsonl"))
        }
    };
    let text: String = found.map(|(partition, checkpoint)| export::line(partition, checkpoint)).collect();
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    let cannot = |why| {
        Failure::new(
            Exit::Unreachable,
            format_args!(
                "nothing was changed: what is there cannot be saved in {}: {why}; name another file with --backup",
                path.display()
            ),
        )
    };
    write().map_err(cannot)?;
    Ok(fs::canonicalize(&path).unwrap_or(path))
}

fn undo(place: &Place, saved: &std::path::Path) -> String {
    let mut words = vec!["downspout".to_owned(), "checkpoint".to_owned(), "import".to_owned()];
    words.extend(place.again());
    words.push(saved.display().to_string());
    words.push("--execute".to_owned());
    command(&words)
}

/// A command line, as a shell reads it back.
pub(super) fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// As a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Extras that say that nobody is at work on it.
pub(super) fn closed(extras: Extras) -> Extras {
    Extras { clean: true, deaths: 0, idle: false, ..extras }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_from_a_shell_as_they_were() {
        for (word, text) in
            [("file:/a_b-c.d", "file:/a_b-c.d"), ("", "''"), ("a b", "'a b'"), ("it's $1", "'it'\\''s $1'")]
        {
            assert_eq!(quoted(word), text);
        }
    }
}

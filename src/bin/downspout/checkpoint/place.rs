//! Which spout's positions, and where they are.

use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use downspout::checkpoint::{Access, CheckpointStore, Checkpoints, Loaded};
use downspout::client::{Cluster, TopicPartition};
use downspout::records::Isolation;

use crate::connect::ConnectArgs;
use crate::exit::Failure;
use crate::store::StoreName;
use crate::zookeeper::SCHEME;

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) connect: ConnectArgs,
    store: StoreName,
    id: Option<String>,
}

/// As it is said.
#[derive(Debug, Args)]
struct PlaceArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Where positions are kept: zk://HOST:PORT,…/ROOT, file:DIR, kafka, or kafka:GROUP
    #[arg(
        short,
        long,
        visible_alias = "checkpoints",
        value_name = "STORE",
        required_unless_present = "root"
    )]
    store: Option<StoreName>,
    /// The spout's id; may be left out with kafka:GROUP, and with zk:// to see all that are there
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The ZooKeeper that Kafka uses, HOST:PORT,…/CHROOT: for the brokers and, below --root, for the
    /// positions, where neither is said
    #[arg(long, value_name = "CONNECT")]
    zookeeper: Option<String>,
    /// The node in --zookeeper under which positions are kept (storm-kafka's zkRoot)
    #[arg(long, value_name = "PATH", requires = "zookeeper")]
    root: Option<String>,
}

impl PlaceArgs {
    fn place(self) -> Result<Place, String> {
        let PlaceArgs { mut connect, store, id, zookeeper, root } = self;
        if let Some(servers) = &zookeeper {
            connect = connect.or(&format!("{SCHEME}{servers}"));
        }
        let store = match (store, zookeeper) {
            (Some(store), _) => store,
            (None, zookeeper) => store_in(&zookeeper.unwrap_or_default(), &root.unwrap_or_default())?,
        };
        Ok(Place { connect, store, id })
    }
}

/// The store below that node in the ZooKeeper that Kafka uses.
pub(crate) fn store_in(zookeeper: &str, root: &str) -> Result<StoreName, String> {
    let (servers, root) = (zookeeper.trim_end_matches('/'), root.trim_start_matches('/'));
    format!("{SCHEME}{servers}/{root}").parse()
}

impl Args for Place {
    fn augment_args(command: Command) -> Command {
        PlaceArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        PlaceArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for Place {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let place = PlaceArgs::from_arg_matches(matches)?.place();
        place.map_err(|why| clap::Error::raw(clap::error::ErrorKind::ValueValidation, why + "\n"))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Place {
    pub(super) fn new(connect: ConnectArgs, store: StoreName, id: Option<String>) -> Self {
        Place { connect, store, id }
    }

    pub(crate) fn id(&self) -> Result<&str, Failure> {
        match (&self.id, &self.store) {
            (Some(id), _) => Ok(id),
            (None, StoreName::Kafka(Some(group))) => Ok(group),
            _ => Err(Failure::usage("no id: say with --id under which name the spout keeps its positions")),
        }
    }

    /// The id that is named; without one, all that the store can tell of.
    pub(crate) async fn ids(&self) -> Result<Vec<String>, Failure> {
        match &self.store {
            StoreName::ZooKeeper(name) if self.has_no_id() => Ok(name.store().ids().await?),
            _ => Ok(vec![self.id()?.to_owned()]),
        }
    }

    /// Whether all spouts of a store are meant.
    pub(crate) fn has_no_id(&self) -> bool {
        self.id.is_none() && matches!(self.store, StoreName::ZooKeeper(_))
    }

    /// The cluster, whose logs end where they end: what is not decided yet can be a position too.
    pub(crate) async fn cluster(&self) -> Result<Cluster, Failure> {
        let mut target = self.connect.target()?;
        target.properties.isolation = Some(Isolation::ReadUncommitted);
        Ok(target.cluster().await?)
    }

    /// The store. A cluster is only connected to where it is needed.
    pub(crate) async fn store(&self, cluster: Option<&Cluster>) -> Result<Arc<dyn CheckpointStore>, Failure> {
        if !self.store.is_durable() {
            return Err(Failure::usage("--store memory: that is gone with the process that had it"));
        }
        match (self.store.alone(), cluster) {
            (Some(store), _) => Ok(store),
            (None, Some(cluster)) => Ok(self.store.store(cluster)),
            (None, None) => Ok(self.store.store(&self.cluster().await?)),
        }
    }

    pub(crate) async fn open(
        &self,
        cluster: Option<&Cluster>,
        access: Access,
    ) -> Result<Box<dyn Checkpoints>, Failure> {
        self.open_id(self.id()?, cluster, access).await
    }

    pub(crate) async fn open_id(
        &self,
        id: &str,
        cluster: Option<&Cluster>,
        access: Access,
    ) -> Result<Box<dyn Checkpoints>, Failure> {
        Ok(self.store(cluster).await?.open(id, access).await?)
    }

    /// The arguments that say the same again.
    pub(crate) fn again(&self) -> Vec<String> {
        let mut again = vec!["--store".to_owned(), self.store.to_string()];
        again.extend(self.id.iter().flat_map(|id| ["--id".to_owned(), id.clone()]));
        again.extend(self.connect.again());
        again
    }
}

/// What is kept of these partitions; the first error ends it.
pub(crate) async fn load(
    checkpoints: &dyn Checkpoints,
    partitions: &[TopicPartition],
) -> Result<Vec<Loaded>, Failure> {
    let loaded = checkpoints.load(partitions).await;
    Ok(loaded.into_iter().collect::<downspout::Result<Vec<Loaded>>>()?)
}

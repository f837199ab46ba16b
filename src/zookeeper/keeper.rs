//! The thread that keeps a session: it makes clients, watches over them, and ends them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use zookeeper_async::{WatchedEvent, ZkState};

use super::Servers;
use super::brake::Brake;
use super::client::{Job, No, Shared, Zk, no};
use super::handshake::session_timeout;
use crate::net::{Backoff, share_by_chance};

/// Between the client's own attempts to connect; with none it spins.
const RETRY: Duration = Duration::from_millis(250);

/// Between the end of a session being written and that of its connection.
const CLOSING: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(super) struct Settings {
    pub servers: Servers,
    /// As it is asked for.
    pub timeout: Duration,
    /// Scheme and secret.
    pub auth: Option<(String, Vec<u8>)>,
}

pub(super) enum Event {
    Job(Job),
    /// The client of that life, or what each server met.
    Dialled(u64, Result<Arc<Zk>, Vec<(String, String)>>),
    Link(u64, Link),
    Close(oneshot::Sender<()>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Link {
    Up,
    Down,
    Expired,
}

enum End {
    Lost,
    Closed(Option<oneshot::Sender<()>>),
}

/// One client at a time, each in a life, and a runtime, of its own.
pub(super) struct Keeper {
    settings: Settings,
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
    inbox: mpsc::UnboundedReceiver<Event>,
    brake: Arc<Brake>,
    /// To be made when there is a connection.
    waiting: VecDeque<Job>,
    hosts: Vec<(String, u16)>,
    life: u64,
    failures: u32,
}

/// What is known of the client of this life.
struct Life {
    number: u64,
    is_lost: Arc<AtomicBool>,
    zk: Option<Arc<Zk>>,
    is_up: bool,
    was_up: bool,
    /// Since when it may be heard.
    since: Clock,
    probed: Instant,
}

impl Keeper {
    pub(super) fn new(
        settings: Settings,
        shared: Arc<Shared>,
        events: mpsc::UnboundedSender<Event>,
        inbox: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        let mut hosts: Vec<_> =
            settings.servers.hosts().iter().map(|host| (share_by_chance(), host.clone())).collect();
        hosts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let hosts = hosts.into_iter().map(|(_, host)| host).collect();
        let (brake, waiting) = (Arc::default(), VecDeque::new());
        Keeper { settings, shared, events, inbox, brake, waiting, hosts, life: 0, failures: 0 }
    }

    pub(super) fn run(mut self) {
        loop {
            let brake = Arc::clone(&self.brake);
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = match runtime.enable_all().on_thread_park(move || brake.waits()).build() {
                Ok(runtime) => runtime,
                Err(why) => {
                    tracing::error!(%why, "no runtime for ZooKeeper: the session is given up");
                    return;
                }
            };
            let end = runtime.block_on(self.live());
            // The client's tasks have no end of their own, and its dropped handle no effect.
            runtime.shutdown_background();
            if let End::Closed(done) = end {
                self.inbox.close();
                self.shared.turn(false);
                let _ = done.map(|done| done.send(()));
                return;
            }
        }
    }

    /// From the first attempt to connect to the end of what became of it.
    async fn live(&mut self) -> End {
        self.life += 1;
        if let Some(end) = self.pause().await {
            return end;
        }
        let mut life = Life {
            number: self.life,
            is_lost: Arc::default(),
            zk: None,
            is_up: false,
            was_up: false,
            since: Clock::now(),
            probed: Instant::now(),
        };
        let dial = dial(
            Arc::clone(&self.shared),
            self.settings.clone(),
            self.hosts.clone(),
            life.number,
            Arc::clone(&life.is_lost),
            self.events.clone(),
        );
        let (number, events) = (life.number, self.events.clone());
        tokio::spawn(async move { events.send(Event::Dialled(number, dial.await)).is_ok() });
        let end = loop {
            if let Some(end) = self.step(&mut life).await {
                break end;
            }
        };
        self.brake.release();
        life.is_lost.store(true, Ordering::SeqCst);
        if life.zk.is_none() && matches!(end, End::Closed(_)) {
            self.dialled(&mut life).await;
        }
        if let Some(zk) = &life.zk {
            // Whatever it has for a session now: nobody wants it any more.
            let limit = if matches!(end, End::Lost) { RETRY } else { self.shared.times().call() };
            if let Ok(Ok(())) = timeout(limit, zk.close()).await {
                // It is written, and not answered: the connection must not break before it is read.
                tokio::time::sleep(CLOSING).await;
            }
        }
        if matches!(end, End::Lost) {
            self.hosts.rotate_left(1);
            self.failures += 1;
            if life.was_up {
                self.failures = 0;
                self.shared.new_session();
                tracing::warn!(servers = %self.settings.servers, "the session with ZooKeeper was lost; a new one is made");
            }
            self.shared.turn(false);
        }
        end
    }

    /// Waits for the client that is on its way, so that its session can be ended.
    async fn dialled(&mut self, life: &mut Life) {
        let until = Instant::now() + self.shared.times().call();
        while let Ok(Some(event)) = timeout_at(until, self.inbox.recv()).await {
            if let Event::Dialled(number, dialled) = event
                && number == life.number
            {
                life.zk = dialled.ok();
                return;
            }
        }
    }

    /// All servers are tried before there is a pause.
    async fn pause(&mut self) -> Option<End> {
        let rounds = self.failures / u32::try_from(self.hosts.len()).unwrap_or(1).max(1);
        let backoff = Backoff { first: Duration::from_millis(100), longest: self.shared.times().probe() };
        let until = Instant::now() + backoff.after(rounds);
        loop {
            match timeout_at(until, self.inbox.recv()).await {
                Ok(Some(Event::Job(job))) => self.waiting.push_back(job),
                Ok(Some(Event::Close(done))) => return Some(End::Closed(Some(done))),
                Ok(Some(Event::Dialled(..) | Event::Link(..))) => {}
                Ok(None) => return Some(End::Closed(None)),
                Err(_) => return None,
            }
        }
    }

    /// Takes the next thing that happens, or does what is due.
    async fn step(&mut self, life: &mut Life) -> Option<End> {
        let due = match life {
            Life { zk: None, .. } => Instant::now() + self.shared.times().session,
            Life { is_up: false, .. } => {
                Instant::now() + self.patience(life).saturating_sub(self.silence(life))
            }
            Life { probed, .. } => *probed + self.shared.times().probe(),
        };
        match timeout_at(due, self.inbox.recv()).await {
            Err(_) if life.zk.is_none() => {} // it is still being dialled
            Err(_) => return self.due(life),
            Ok(None) => return Some(End::Closed(None)),
            Ok(Some(Event::Close(done))) => return Some(End::Closed(Some(done))),
            Ok(Some(Event::Job(job))) => match &life.zk {
                Some(zk) if life.is_up => drop(tokio::spawn(job(Arc::clone(zk), Arc::clone(&life.is_lost)))),
                _ => self.waiting.push_back(job),
            },
            Ok(Some(Event::Dialled(number, dialled))) if number == life.number => match dialled {
                Ok(zk) => {
                    (life.zk, life.since) = (Some(zk), Clock::now());
                    self.brake.apply();
                }
                Err(failures) => {
                    self.shared.failed(failures);
                    return Some(End::Lost);
                }
            },
            Ok(Some(Event::Link(number, link))) if number == life.number => match link {
                Link::Up => self.up(life),
                Link::Down if life.is_up => {
                    life.is_up = false;
                    self.shared.turn(false);
                    self.brake.apply();
                }
                Link::Down => {}
                Link::Expired => return Some(End::Lost),
            },
            Ok(Some(Event::Dialled(..) | Event::Link(..))) => {} // of an earlier one
        }
        None
    }

    fn up(&mut self, life: &mut Life) {
        let Some(zk) = &life.zk else { return };
        self.brake.release();
        (life.is_up, life.was_up, life.since) = (true, true, Clock::now());
        self.failures = 0;
        self.shared.failed(Vec::new());
        if let Some((scheme, secret)) = self.settings.auth.clone() {
            let zk = Arc::clone(zk);
            tokio::spawn(async move { zk.add_auth(scheme, secret).await.is_ok() });
        }
        for job in self.waiting.drain(..) {
            tokio::spawn(job(Arc::clone(zk), Arc::clone(&life.is_lost)));
        }
        self.probe(life);
        self.shared.turn(true);
    }

    /// A call of our own, so that silence is noticed when nobody calls.
    fn probe(&self, life: &mut Life) {
        let Some(zk) = life.zk.clone() else { return };
        life.probed = Instant::now();
        let (shared, is_lost) = (Arc::clone(&self.shared), Arc::clone(&life.is_lost));
        tokio::spawn(async move {
            let asked = Clock::now();
            let result = zk.exists("/", false).await.map_err(no);
            if !matches!(result, Err(No::Lost { .. })) && !is_lost.load(Ordering::SeqCst) {
                shared.answered(asked);
            }
        });
    }

    /// Since when nothing was heard.
    fn silence(&self, life: &Life) -> Duration {
        self.shared.heard().max(life.since).elapsed()
    }

    /// How long that may last.
    fn patience(&self, life: &Life) -> Duration {
        let times = self.shared.times();
        if life.was_up { times.given_up() } else { times.call() }
    }

    fn due(&self, life: &mut Life) -> Option<End> {
        let patience = self.patience(life);
        if self.silence(life) >= patience {
            if !life.was_up {
                let tried = self.hosts.iter().map(|(host, port)| {
                    let why = format!("gives no session within {patience:?}");
                    (format!("{host}:{port}"), why)
                });
                self.shared.failed(tried.collect());
            }
            return Some(End::Lost);
        }
        if life.is_up {
            self.probe(life);
        }
        None
    }
}

/// A client that has begun to connect: to all servers, the first of which gives sessions. Their names are
/// resolved here, each time, since the client asks for one address of each, once, and waits for it with its thread.
async fn dial(
    shared: Arc<Shared>,
    settings: Settings,
    hosts: Vec<(String, u16)>,
    life: u64,
    is_lost: Arc<AtomicBool>,
    events: mpsc::UnboundedSender<Event>,
) -> Result<Arc<Zk>, Vec<(String, String)>> {
    let patience = shared.times().call();
    let mut failures = Vec::new();
    let mut addresses = Vec::new();
    for (host, port) in hosts {
        match timeout(patience, lookup_host((host.as_str(), port))).await {
            Ok(Ok(found)) => addresses.extend(found),
            Ok(Err(why)) => failures.push((format!("{host}:{port}"), why.to_string())),
            Err(_) => {
                failures.push((format!("{host}:{port}"), "its name is not resolved in time".to_owned()))
            }
        }
    }
    let mut is_reached = false;
    for i in 0..addresses.len() {
        let asked =
            async { session_timeout(&mut TcpStream::connect(addresses[i]).await?, settings.timeout).await };
        let why = match timeout(patience, asked).await {
            Ok(Ok(given)) if given >= Duration::from_secs(1) => {
                if given != settings.timeout {
                    tracing::info!(asked = ?settings.timeout, ?given, "the session timeout is the server's");
                }
                shared.given(given);
                addresses.rotate_left(i);
                is_reached = true;
                break;
            }
            Ok(Ok(given)) => format!("it gives sessions of {given:?} only"),
            Ok(Err(why)) if why.kind() == std::io::ErrorKind::UnexpectedEof => {
                "it closes the connection: it has no quorum, or too many connections, or is no ZooKeeper"
                    .to_owned()
            }
            Ok(Err(why)) => why.to_string(),
            Err(_) => format!("it gives no session within {patience:?}: it is frozen, or no ZooKeeper"),
        };
        failures.push((addresses[i].to_string(), why));
    }
    if !is_reached {
        return Err(failures);
    }
    let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let session = settings.timeout;
    let nobody = |_: WatchedEvent| {};
    let zk = timeout(patience, Zk::connect_with_retry_time(&list.join(","), session, nobody, RETRY)).await;
    let zk = match zk {
        Ok(Ok(zk)) => zk,
        Ok(Err(why)) => return Err(vec![(list.join(","), format!("{why:?}"))]),
        Err(_) => return Err(vec![(list.join(","), format!("no connection within {patience:?}"))]),
    };
    // Nothing is awaited in between, so nothing has happened yet.
    zk.add_listener(move |state| {
        let link = match state {
            ZkState::Connected | ZkState::ConnectedReadOnly => Link::Up,
            ZkState::Connecting => Link::Down,
            _ => {
                is_lost.store(true, Ordering::SeqCst);
                Link::Expired
            }
        };
        let _ = events.send(Event::Link(life, link));
    });
    Ok(Arc::new(zk))
}

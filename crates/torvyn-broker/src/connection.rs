//! A connection to the broker. It is established again for ever, with delays that grow.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ReconnectToServer, Server, ServerAddr, ServerError};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// A connection on which nothing is answered for so long is given up.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// A client that tries to connect cannot be told to end. One that was closed sleeps instead.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// What the server says when somebody may not publish on a subject, or not subscribe to it.
const DENIED: &str = "permissions violation";
/// The loop answers at once, unless it cannot run.
const LOOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may be silent before another one is tried. Where there is only one, nothing is gained by haste.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    connect: Duration,
    /// The connection is lost when three of them pass without a word.
    ping: Duration,
    /// How often a consumer says that it is there; one that misses three is made anew.
    pub heartbeat: Duration,
    /// How long the answer to a request may take before it is tried again.
    pub answer: Duration,
}

impl Patience {
    const ALONE: Self = Self {
        connect: Duration::from_secs(5),
        ping: Duration::from_secs(20),
        heartbeat: Duration::from_secs(5),
        answer: ANSWER_TIMEOUT,
    };
    const CLUSTER: Self = Self {
        connect: Duration::from_secs(2),
        ping: Duration::from_millis(400),
        heartbeat: Duration::from_millis(400),
        answer: Duration::from_millis(750),
    };

    pub fn silence(&self) -> Duration {
        3 * self.heartbeat
    }
}

/// How the server knows us.
#[derive(Default)]
pub struct Credentials {
    pub user: Option<String>,
    pub password: Option<String>,
    pub token: Option<String>,
    /// The seed of an nkey.
    pub nkey: Option<String>,
    /// The content of a `.creds` file: a JWT and the seed of its key.
    pub creds: Option<String>,
    /// The certificates to trust; those of the system otherwise.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and its private key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
}

impl Credentials {
    fn apply(self, mut options: ConnectOptions) -> Result<ConnectOptions, ConnectionError> {
        if let Some(file) = self.ca_file {
            options = options.add_root_certificates(file);
        }
        if let Some((certificate, key)) = self.client_certificate {
            options = options.add_client_certificate(certificate, key);
        }
        if let Some(creds) = self.creds {
            return options
                .credentials(&creds)
                .map_err(|error| ConnectionError::Credentials(error.to_string()));
        }
        Ok(match (self.nkey, self.token, self.user) {
            (Some(seed), ..) => options.nkey(seed),
            (_, Some(token), _) => options.token(token),
            (_, _, Some(user)) => options.user_and_password(user, self.password.unwrap_or_default()),
            _ => options,
        })
    }
}

/// The public key of an nkey, and its signature of what the server asks to be signed. None for what is no seed of a user.
pub fn sign(seed: &str, nonce: &[u8]) -> Option<(String, Vec<u8>)> {
    let key = nkeys::KeyPair::from_seed(seed.trim()).ok()?;
    Some((key.public_key(), key.sign(nonce).ok()?))
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("there is no thread for the connection: {0}")]
    Thread(#[from] std::io::Error),
    #[error("the address cannot be used: {0}")]
    Address(String),
    #[error("the credentials cannot be used: {0}")]
    Credentials(String),
}

/// How often it was established, and whether it is there now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub epoch: u64,
    pub is_connected: bool,
}

#[derive(Clone)]
pub struct Connection {
    pub(crate) client: Client,
    pub(crate) runtime: Handle,
    pub(crate) state: watch::Receiver<State>,
    pub(crate) patience: Patience,
    denial: Arc<OnceLock<String>>,
    is_closed: Arc<AtomicBool>,
}

impl Connection {
    /// Connects, without waiting for it.
    pub fn open(addresses: &[String], credentials: Credentials) -> Result<Self, ConnectionError> {
        let runtime = crate::runtime::handle()?;
        let parsed = addresses.iter().map(|address| address.parse::<ServerAddr>());
        let servers = parsed.collect::<Result<Vec<_>, _>>();
        let servers = servers.map_err(|error| ConnectionError::Address(error.to_string()))?;
        let (sender, state) = watch::channel(State::default());
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        let patience = if servers.len() > 1 { Patience::CLUSTER } else { Patience::ALONE };
        let choice = ServerChoice::default();
        let denial = Arc::new(OnceLock::new());
        let noted_denial = denial.clone();
        let mut options =
            ConnectOptions::new()
                .retry_on_initial_connect()
                .connection_timeout(patience.connect)
                .ping_interval(patience.ping)
                .reconnect_to_server_callback(move |servers, _| std::future::ready(choice.next(&servers)))
                .reconnect_delay_callback(move |attempts| {
                    if closed.load(Ordering::Acquire) { NEVER } else { delay(attempts) }
                })
                .event_callback(move |event| {
                    note(&sender, &noted_denial, &event);
                    std::future::ready(())
                });
        options = credentials.apply(options)?;
        let connecting = async move { options.connect(servers).await };
        let client = runtime.block_on_elsewhere(connecting)?;
        let client = client.map_err(|error| ConnectionError::Address(error.to_string()))?;
        Ok(Self { client, runtime, state, patience, denial, is_closed })
    }

    /// Waits on the calling thread; false if there is no connection after this time.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.state.clone();
        let connected = async move {
            tokio::time::timeout(timeout, state.wait_for(|state| state.is_connected))
                .await
                .is_ok_and(|found| found.is_ok())
        };
        self.runtime.block_on_elsewhere(connected).unwrap_or(false)
    }

    pub fn is_connected(&self) -> bool {
        self.state.borrow().is_connected
    }

    /// What the server does not allow, in its words, if there was anything.
    pub fn denial(&self) -> Option<&str> {
        self.denial.get().map(String::as_str)
    }

    /// Sends what is left, and ends the connection.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let client = self.client.clone();
        self.runtime.spawn(async move {
            let _ = client.drain().await;
        });
    }
}

/// Which server is tried next: the one that has failed least often, and not again the one that was lost, which may be
/// frozen and accept connections nevertheless. Of several, every process prefers another one.
#[derive(Default)]
struct ServerChoice {
    random: RandomState,
    last: Mutex<Option<ServerAddr>>,
}

impl ServerChoice {
    fn next(&self, servers: &[Server]) -> Option<ReconnectToServer> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = |server: &&Server| {
            let is_last = last.as_ref() == Some(&server.addr);
            (server.failed_attempts, is_last, self.random.hash_one(server.addr.as_url_str()))
        };
        let chosen = servers.iter().min_by_key(rank)?.addr.clone();
        *last = Some(chosen.clone());
        Some(ReconnectToServer { addr: chosen, delay: None })
    }
}

fn note(state: &watch::Sender<State>, denial: &OnceLock<String>, event: &Event) {
    match event {
        Event::ServerError(ServerError::Other(text)) if text.to_lowercase().contains(DENIED) => {
            let _ = denial.set(text.clone());
        }
        Event::Connected => state.send_modify(|state| {
            state.epoch += 1;
            state.is_connected = true;
        }),
        Event::Disconnected | Event::Closed => state.send_modify(|state| state.is_connected = false),
        _ => {}
    }
}

fn delay(attempts: usize) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16) as u32;
    FIRST_DELAY.saturating_mul(2u32.saturating_pow(doublings)).min(LONGEST_DELAY)
}

/// Waits on the calling thread for a result of the loop's thread.
trait BlockElsewhere {
    fn block_on_elsewhere<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> std::io::Result<T>;
}

impl BlockElsewhere for Handle {
    fn block_on_elsewhere<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> std::io::Result<T> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv_timeout(LOOP_TIMEOUT).map_err(std::io::Error::other)
    }
}

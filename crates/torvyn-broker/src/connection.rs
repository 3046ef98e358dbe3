//! A connection to the broker. It is established again for ever, with delays that grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use tokio::runtime::Handle;
use tokio::sync::watch;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PING_INTERVAL: Duration = Duration::from_secs(20);
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// A client that tries to connect cannot be told to end. One that was closed sleeps instead.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// The loop answers at once, unless it cannot run.
const LOOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How the server knows us.
#[derive(Default)]
pub struct Credentials {
    pub user: Option<String>,
    pub password: Option<String>,
    pub token: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("there is no thread for the connection: {0}")]
    Thread(#[from] std::io::Error),
    #[error("the address cannot be used: {0}")]
    Address(String),
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
        let mut options =
            ConnectOptions::new()
                .retry_on_initial_connect()
                .connection_timeout(CONNECT_TIMEOUT)
                .ping_interval(PING_INTERVAL)
                .reconnect_delay_callback(move |attempts| {
                    if closed.load(Ordering::Acquire) { NEVER } else { delay(attempts) }
                })
                .event_callback(move |event| {
                    note(&sender, &event);
                    std::future::ready(())
                });
        if let Some(token) = credentials.token {
            options = options.token(token);
        } else if let Some(user) = credentials.user {
            options = options.user_and_password(user, credentials.password.unwrap_or_default());
        }
        let connecting = async move { options.connect(servers).await };
        let client = runtime.block_on_elsewhere(connecting)?;
        let client = client.map_err(|error| ConnectionError::Address(error.to_string()))?;
        Ok(Self { client, runtime, state, is_closed })
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

    /// Sends what is left, and ends the connection.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let client = self.client.clone();
        self.runtime.spawn(async move {
            let _ = client.drain().await;
        });
    }
}

fn note(state: &watch::Sender<State>, event: &Event) {
    match event {
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

//! A client on the thread of the test; the servers that it talks to are threads with real sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use torvyn_wire::http::Request;
use torvyn_wire::http::response::Parts;
use torvyn_wire::{Client, ClientCall, ClientError, ClientOptions, Origin, Receiver, client_config};

const PATIENCE: Duration = Duration::from_secs(10);
const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhello";

#[derive(Default)]
struct Received {
    status: Option<u16>,
    data: Vec<u8>,
    ends: Vec<Result<(), ClientError>>,
    is_full: bool,
}

#[derive(Default)]
struct Inbox(Mutex<Received>);

impl Inbox {
    fn look<T>(&self, look: impl FnOnce(&mut Received) -> T) -> T {
        look(&mut self.0.lock().expect("no panic elsewhere"))
    }

    fn end(&self) -> Option<Result<(), ClientError>> {
        self.look(|received| received.ends.first().cloned())
    }
}

impl Receiver for Inbox {
    fn head(&self, head: Parts) {
        self.look(|received| received.status = Some(head.status.as_u16()));
    }

    fn data(&self, data: Bytes) {
        self.look(|received| received.data.extend_from_slice(&data));
    }

    fn end(&self, outcome: Result<(), ClientError>) {
        self.look(|received| received.ends.push(outcome));
    }

    fn has_room(&self) -> bool {
        self.look(|received| !received.is_full)
    }
}

fn client() -> Client {
    client_with(Duration::from_secs(5), Duration::from_secs(5))
}

fn client_with(connect_timeout: Duration, keep_alive: Duration) -> Client {
    let tls = Some(client_config(&[]).expect("a configuration"));
    Client::new(ClientOptions { connect_timeout, keep_alive, tls }).expect("a reactor")
}

fn send(client: &Client, addresses: &[SocketAddr], is_tls: bool) -> (Arc<Inbox>, Arc<ClientCall>) {
    let port = addresses.last().map_or(1, SocketAddr::port);
    let origin = Origin { is_tls, host: "localhost".to_owned(), port };
    let request = Request::post("/v1").header("host", "localhost").body(Full::from("{}")).expect("a request");
    let inbox = Arc::new(Inbox::default());
    let call = client.send(origin, addresses.to_vec(), request, inbox.clone());
    (inbox, call)
}

/// Turns until that holds.
fn until(client: &mut Client, mut holds: impl FnMut(&Client) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds(client) {
        assert!(Instant::now() < end, "it never came");
        client.reactor.turn().expect("a turn");
        client.reactor.wait(Some(Duration::from_millis(5))).expect("a wait");
    }
}

fn outcome(client: &mut Client, inbox: &Inbox) -> Result<(), ClientError> {
    until(client, |_| inbox.end().is_some());
    inbox.end().expect("an end")
}

/// A server that runs `work` for each of so many connections, one after the other.
fn server<T: Send + 'static>(
    count: usize,
    work: impl Fn(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let accept = move || {
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        work(stream)
    };
    (address, thread::spawn(move || (0..count).map(|_| accept()).collect()))
}

/// Reads one request, and answers it if it came.
fn answer(stream: &mut TcpStream, response: &[u8]) -> bool {
    let mut got = Vec::new();
    let mut bytes = [0; 1024];
    while !got.ends_with(b"\r\n\r\n{}") {
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => got.extend_from_slice(&bytes[..count]),
            _ => return false,
        }
    }
    stream.write_all(response).expect("a write");
    true
}

fn answer_all(mut stream: TcpStream) -> usize {
    std::iter::repeat_with(|| answer(&mut stream, WHOLE)).take_while(|is_answered| *is_answered).count()
}

/// An address at which nobody listens.
fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}

#[test]
fn requests_one_after_the_other_use_the_same_connection() {
    let (address, served) = server(1, answer_all);
    let mut client = client();
    for _ in 0..3 {
        let (inbox, _call) = send(&client, &[address], false);
        assert_eq!(outcome(&mut client, &inbox), Ok(()));
        assert_eq!(inbox.look(|got| (got.status, got.data.clone())), (Some(200), b"hello".to_vec()));
        assert_eq!(client.connections(), 1);
    }
    drop(client);
    assert_eq!(served.join().expect("a server"), [3]);
}

#[test]
fn requests_at_the_same_time_use_a_connection_each() {
    let (address, served) = server(2, |mut stream| answer(&mut stream, WHOLE));
    let mut client = client();
    let (first, _call) = send(&client, &[address], false);
    let (second, _call) = send(&client, &[address], false);
    assert_eq!(client.connections(), 2);
    assert_eq!((outcome(&mut client, &first), outcome(&mut client, &second)), (Ok(()), Ok(())));
    assert_eq!(served.join().expect("a server"), [true, true]);
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let (address, served) = server(1, answer_all);
    let mut client = client_with(PATIENCE, Duration::from_millis(50));
    let (inbox, _call) = send(&client, &[address], false);
    assert_eq!(outcome(&mut client, &inbox), Ok(()));
    until(&mut client, |client| client.connections() == 0);
    assert_eq!(served.join().expect("a server"), [1]);
}

#[test]
fn a_request_after_the_server_has_closed_the_idle_connection_opens_another() {
    let (address, served) = server(2, |mut stream| answer(&mut stream, WHOLE));
    let mut client = client();
    for _ in 0..2 {
        let (inbox, _call) = send(&client, &[address], false);
        assert_eq!(outcome(&mut client, &inbox), Ok(()));
        until(&mut client, |client| client.connections() == 0);
    }
    assert_eq!(served.join().expect("a server"), [true, true]);
}

#[test]
fn a_port_at_which_nobody_listens_is_unreachable() {
    let mut client = client();
    let (inbox, _call) = send(&client, &[closed_port()], false);
    assert!(matches!(outcome(&mut client, &inbox), Err(ClientError::Unreachable(_))));
}

#[test]
fn a_host_without_an_address_is_unreachable() {
    let mut client = client();
    let (inbox, _call) = send(&client, &[], false);
    let expected = ClientError::Unreachable("it has no address".to_owned());
    assert_eq!(outcome(&mut client, &inbox), Err(expected));
}

#[test]
fn the_next_address_is_used_when_one_refuses() {
    let (address, served) = server(1, |mut stream| answer(&mut stream, WHOLE));
    let mut client = client();
    let (inbox, _call) = send(&client, &[closed_port(), address], false);
    assert_eq!(outcome(&mut client, &inbox), Ok(()));
    assert_eq!(served.join().expect("a server"), [true]);
}

#[test]
fn a_server_that_is_silent_during_the_tls_handshake_is_given_up_in_time() {
    let (address, served) = server(1, |mut stream| stream.read_to_end(&mut Vec::new()).is_ok());
    let mut client = client_with(Duration::from_millis(100), PATIENCE);
    let (inbox, _call) = send(&client, &[address], true);
    assert_eq!(outcome(&mut client, &inbox), Err(ClientError::ConnectTimeout));
    drop(client);
    served.join().expect("a server");
}

#[test]
fn a_server_that_does_not_speak_tls_is_an_error_of_tls() {
    let (address, served) = server(1, |mut stream| stream.write_all(WHOLE).is_ok());
    let mut client = client();
    let (inbox, _call) = send(&client, &[address], true);
    assert!(matches!(outcome(&mut client, &inbox), Err(ClientError::Tls(_))));
    served.join().expect("a server");
}

#[test]
fn a_response_that_is_cut_is_broken_and_ends_once() {
    let (address, served) = server(1, |mut stream| answer(&mut stream, HALF));
    let mut client = client();
    let (inbox, _call) = send(&client, &[address], false);
    assert!(matches!(outcome(&mut client, &inbox), Err(ClientError::Broken(_))));
    until(&mut client, |client| client.connections() == 0);
    assert_eq!(inbox.look(|got| (got.data.clone(), got.ends.len())), (b"hello".to_vec(), 1));
    served.join().expect("a server");
}

#[test]
fn a_connection_that_ends_before_the_response_is_broken() {
    let (address, served) = server(1, |mut stream| answer(&mut stream, b""));
    let mut client = client();
    let (inbox, _call) = send(&client, &[address], false);
    assert!(matches!(outcome(&mut client, &inbox), Err(ClientError::Broken(_))));
    assert_eq!(served.join().expect("a server"), [true]);
}

#[test]
fn a_receiver_without_room_gets_nothing_until_it_resumes() {
    let (address, served) = server(1, answer_all);
    let mut client = client();
    let (inbox, call) = send(&client, &[address], false);
    inbox.look(|got| got.is_full = true);
    until(&mut client, |_| inbox.look(|got| got.status.is_some()));
    assert_eq!(inbox.look(|got| got.data.len()), 0);
    inbox.look(|got| got.is_full = false);
    call.resume();
    assert_eq!(outcome(&mut client, &inbox), Ok(()));
    drop(client);
    assert_eq!(served.join().expect("a server"), [1]);
}

#[test]
fn a_call_that_is_cancelled_closes_its_connection() {
    let is_closed = |mut stream: TcpStream| answer(&mut stream, HALF) && !answer(&mut stream, WHOLE);
    let (address, served) = server(1, is_closed);
    let mut client = client();
    let (inbox, call) = send(&client, &[address], false);
    until(&mut client, |_| inbox.look(|got| got.status.is_some()));
    call.cancel();
    until(&mut client, |client| client.connections() == 0);
    assert_eq!(inbox.look(|got| got.ends.len()), 1);
    assert_eq!(served.join().expect("a server"), [true]);
}

#[test]
fn a_client_that_is_closed_ends_every_call_and_takes_no_more() {
    let (address, served) = server(1, |mut stream| answer(&mut stream, HALF) && !answer(&mut stream, WHOLE));
    let mut client = client();
    let (inbox, _call) = send(&client, &[address], false);
    until(&mut client, |_| inbox.look(|got| got.status.is_some()));
    client.close();
    assert!(matches!(outcome(&mut client, &inbox), Err(ClientError::Broken(_))));
    let (late, _call) = send(&client, &[address], false);
    assert_eq!(late.end(), Some(Err(ClientError::Unreachable("the client is closed".to_owned()))));
    assert_eq!(served.join().expect("a server"), [true]);
}

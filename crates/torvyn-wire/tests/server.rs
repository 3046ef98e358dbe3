//! A server on a real socket, driven by the thread of the test; its clients are threads.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use torvyn_wire::http::Response;
use torvyn_wire::http::response::Parts;
use torvyn_wire::{BodyError, CAPACITY, Event, Exchange, Options, Server};

const PATIENCE: Duration = Duration::from_secs(10);

fn options() -> Options {
    Options {
        max_body_bytes: 1000,
        max_bodies_bytes: 1500,
        body_timeout: Duration::from_secs(5),
        head_timeout: Duration::from_secs(5),
        keep_alive: Duration::from_secs(5),
        max_connections: 10,
        max_unknown: 10,
        max_unknown_per_address: 10,
        has_keys: false,
        max_streams: 10,
        tls: None,
    }
}

fn serve(options: Options) -> (Server, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    (Server::new(listener, options).expect("a reactor"), address)
}

/// Turns until `find` finds something in an event.
fn until<T>(server: &mut Server, mut find: impl FnMut(Event) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        server.reactor.turn().expect("a turn");
        for event in server.events().take() {
            if let Some(found) = find(event) {
                return found;
            }
        }
        server.reactor.wait(Some(Duration::from_millis(10))).expect("a wait");
    }
    panic!("it never came");
}

fn request(server: &mut Server) -> Box<Exchange> {
    until(server, |event| match event {
        Event::Request(exchange) => Some(exchange),
        _ => None,
    })
}

/// Turns until the client is done; returns what it got.
fn finish<T>(server: &mut Server, client: JoinHandle<T>) -> T {
    while !client.is_finished() {
        server.reactor.turn().expect("a turn");
        server.reactor.wait(Some(Duration::from_millis(2))).expect("a wait");
    }
    client.join().expect("a client")
}

fn connect(address: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(sent).expect("a write");
    stream
}

/// A client that sends this and reads until the server closes.
fn client(address: SocketAddr, sent: &'static [u8]) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut got = Vec::new();
        // A reset ends it as well.
        let _ = connect(address, sent).read_to_end(&mut got);
        got
    })
}

fn head() -> Parts {
    Response::builder().header("connection", "close").body(()).expect("a head").into_parts().0
}

const GET: &[u8] = b"GET /a?b=c HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn a_request_gets_a_whole_answer() {
    let (mut server, address) = serve(options());
    let client = client(address, b"POST /a?b=c HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc");
    let exchange = request(&mut server);
    assert_eq!(exchange.head.uri.path(), "/a");
    assert_eq!(exchange.body.as_deref(), Ok(&b"abc"[..]));
    exchange.answer.respond(head(), "hello".into());
    let got = finish(&mut server, client);
    assert!(got.starts_with(b"HTTP/1.1 200 OK\r\n") && got.ends_with(b"\r\n\r\nhello"));
}

#[test]
fn a_head_that_is_held_leaves_with_what_follows() {
    let (mut server, address) = serve(options());
    let client = client(address, GET);
    let exchange = request(&mut server);
    exchange.answer.hold(head(), |out| out.extend_from_slice(b"start "));
    server.reactor.run_ready();
    assert!(exchange.answer.is_held());
    exchange.answer.append(b"text");
    assert!(!exchange.answer.is_held());
    exchange.answer.finish(None);
    let got = String::from_utf8(finish(&mut server, client)).expect("text");
    assert!(
        got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("A\r\nstart text\r\n0\r\n\r\n"),
        "{got:?}"
    );
}

#[test]
fn a_head_that_is_held_can_be_replaced() {
    let (mut server, address) = serve(options());
    let client = client(address, GET);
    let exchange = request(&mut server);
    exchange.answer.hold(head(), |out| out.extend_from_slice(b"start "));
    server.reactor.run_ready();
    let mut other = head();
    other.status = http::StatusCode::TOO_MANY_REQUESTS;
    exchange.answer.respond(other, "later".into());
    let got = String::from_utf8(finish(&mut server, client)).expect("text");
    assert!(got.starts_with("HTTP/1.1 429") && got.ends_with("\r\n\r\nlater"), "{got:?}");
}

#[test]
fn what_follows_soon_is_sent_together_and_nothing_is_left_behind() {
    let (mut server, address) = serve(options());
    let client = client(address, GET);
    let exchange = request(&mut server);
    exchange.answer.hold(head(), |_| ());
    for part in ["one ", "two ", "three ", "four "] {
        assert!(exchange.answer.append(part.as_bytes()));
        server.reactor.run_ready();
    }
    exchange.answer.finish(None);
    let got = String::from_utf8(finish(&mut server, client)).expect("text");
    // The start of an answer and its first text do not wait.
    assert!(got.ends_with("4\r\none \r\n4\r\ntwo \r\nB\r\nthree four \r\n0\r\n\r\n"), "{got:?}");
}

#[test]
fn a_producer_waits_for_a_client_that_does_not_read_and_is_told_when_there_is_room() {
    let (mut server, address) = serve(options());
    let mut slow = connect(address, GET);
    let exchange = request(&mut server);
    exchange.answer.hold(head(), |_| ());
    let mut sent = 0;
    while !exchange.answer.must_wait() {
        assert!(exchange.answer.append(&[b'x'; 1024]));
        sent += 1024;
        server.reactor.turn().expect("a turn");
        assert!(sent < 64 << 20, "it never waits");
    }
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        slow.read_to_end(&mut got).expect("the rest");
        got.iter().filter(|byte| **byte == b'x').count()
    });
    until(&mut server, |event| matches!(event, Event::Room(id) if id == exchange.answer.id).then_some(()));
    assert!(!exchange.answer.must_wait());
    exchange.answer.finish(None);
    assert_eq!(finish(&mut server, reader), sent);
    assert!(sent >= CAPACITY);
}

#[test]
fn a_client_that_leaves_is_reported_once() {
    let (mut server, address) = serve(options());
    let stream = connect(address, GET);
    let exchange = request(&mut server);
    exchange.answer.hold(head(), |_| ());
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a reset");
    drop(stream);
    until(&mut server, |event| matches!(event, Event::Left(id) if id == exchange.answer.id).then_some(()));
    assert!(!exchange.answer.append(b"more"));
    server.reactor.turn().expect("a turn");
    assert!(server.events().is_empty());
    assert_eq!(server.counts().open, 0);
}

#[test]
fn an_aborted_answer_resets_its_connection() {
    let (mut server, address) = serve(options());
    let client = client(address, GET);
    let exchange = request(&mut server);
    exchange.answer.hold(head(), |_| ());
    exchange.answer.append(b"part");
    server.reactor.run_ready();
    exchange.abort();
    let aborted = Instant::now();
    let got = finish(&mut server, client);
    assert!(!got.ends_with(b"0\r\n\r\n"));
    assert!(aborted.elapsed() < PATIENCE / 2, "the connection was not closed");
}

#[test]
fn bodies_are_limited_one_by_one_and_together() {
    let (mut server, address) = serve(options());
    let too_large = connect(address, b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1001\r\n\r\n");
    assert_eq!(request(&mut server).body, Err(BodyError::TooLarge));
    let mut open = vec![too_large];
    for size in [900, 500, 300] {
        let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 950\r\n\r\n";
        open.push(connect(address, &[head.as_slice(), &vec![b'x'; size]].concat()));
    }
    // 1,700 bytes are more than 1,500: the largest makes room.
    let refused = request(&mut server);
    assert_eq!(refused.body, Err(BodyError::Refused));
    assert_eq!(server.counts().open, 4);
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let (mut server, address) = serve(Options { max_connections: 2, ..options() });
    let idle: Vec<_> = (0..2).map(|_| connect(address, b"")).collect();
    while server.counts().open < 2 {
        server.reactor.turn().expect("a turn");
    }
    let client = client(address, GET);
    request(&mut server).answer.respond(head(), "hello".into());
    assert!(finish(&mut server, client).ends_with(b"hello"));
    drop(idle);
}

#[test]
fn connections_without_a_key_make_room_for_each_other_and_not_for_callers_with_one() {
    let (mut server, address) = serve(Options { max_unknown: 2, has_keys: true, ..options() });
    let mut known = connect(address, GET);
    let exchange = request(&mut server);
    server.recognise(&exchange);
    exchange.answer.respond(Response::new(()).into_parts().0, "first".into());
    let half = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n";
    let unknown: Vec<_> = [b"".as_slice(), half, b"", half].map(|sent| connect(address, sent)).into();
    while server.counts().evicted < 2 || server.counts().open > 3 {
        server.reactor.turn().expect("a turn");
    }
    known.write_all(GET).expect("a write");
    request(&mut server).answer.respond(head(), "second".into());
    let answers = thread::spawn(move || std::io::read_to_string(known).expect("answers"));
    assert!(finish(&mut server, answers).ends_with("second"));
    drop(unknown);
}

#[test]
fn a_stopped_server_answers_what_it_has_and_closes() {
    let (mut server, address) = serve(options());
    let client = client(address, GET);
    let exchange = request(&mut server);
    server.stop();
    exchange.answer.respond(Response::new(()).into_parts().0, "last".into());
    assert!(finish(&mut server, client).ends_with(b"last"));
    assert!(TcpStream::connect(address).is_err());
}

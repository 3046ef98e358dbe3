//! Connections of a real guest over `wasi:sockets`: granted ones are made, all others are denied and counted.
#![allow(clippy::unwrap_used)]

mod guests;

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use guests::{Bench, limits};
use torvyn_sandbox::{Kind, Limits};
use torvyn_stream::Step;

const CONNECTING: &str = r#"
package test:connecting;
world guest {
    include torvyn:filtering/content-filter@0.1.0;
    import wasi:sockets/instance-network@0.2.0;
    import wasi:sockets/tcp-create-socket@0.2.0;
    import wasi:sockets/udp-create-socket@0.2.0;
    import wasi:sockets/tcp@0.2.0;
    import wasi:sockets/ip-name-lookup@0.2.0;
}
package wasi:io@0.2.0 {
    interface poll { resource pollable { block: func(); } }
    interface streams { resource input-stream; resource output-stream; }
}
package wasi:sockets@0.2.0 {
    interface network {
        resource network;
        enum error-code {
            unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout,
            concurrency-conflict, not-in-progress, would-block, invalid-state, new-socket-limit,
            address-not-bindable, address-in-use, remote-unreachable, connection-refused, connection-reset,
            connection-aborted, datagram-too-large, name-unresolvable, temporary-resolver-failure,
            permanent-resolver-failure,
        }
        enum ip-address-family { ipv4, ipv6 }
        type ipv4-address = tuple<u8, u8, u8, u8>;
        type ipv6-address = tuple<u16, u16, u16, u16, u16, u16, u16, u16>;
        record ipv4-socket-address { port: u16, address: ipv4-address }
        record ipv6-socket-address { port: u16, flow-info: u32, address: ipv6-address, scope-id: u32 }
        variant ip-socket-address { ipv4(ipv4-socket-address), ipv6(ipv6-socket-address) }
    }
    interface instance-network {
        use network.{network};
        instance-network: func() -> network;
    }
    interface tcp {
        use wasi:io/streams@0.2.0.{input-stream, output-stream};
        use wasi:io/poll@0.2.0.{pollable};
        use network.{network, error-code, ip-socket-address};
        resource tcp-socket {
            start-connect: func(network: borrow<network>, remote-address: ip-socket-address) -> result<_, error-code>;
            finish-connect: func() -> result<tuple<input-stream, output-stream>, error-code>;
            subscribe: func() -> pollable;
        }
    }
    interface tcp-create-socket {
        use network.{error-code, ip-address-family};
        use tcp.{tcp-socket};
        create-tcp-socket: func(address-family: ip-address-family) -> result<tcp-socket, error-code>;
    }
    interface udp { resource udp-socket; }
    interface udp-create-socket {
        use network.{error-code, ip-address-family};
        use udp.{udp-socket};
        create-udp-socket: func(address-family: ip-address-family) -> result<udp-socket, error-code>;
    }
    interface ip-name-lookup {
        use network.{network, error-code};
        resource resolve-address-stream;
        resolve-addresses: func(network: borrow<network>, name: string) -> result<resolve-address-stream, error-code>;
    }
}
"#;

const IMPORTS: &str = r#"
  (import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))
  (import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $create (param i32 i32)))
  (import "wasi:sockets/udp-create-socket@0.2.0" "create-udp-socket" (func $create_udp (param i32 i32)))
  (import "wasi:sockets/tcp@0.2.0" "[method]tcp-socket.start-connect" (func $start
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "wasi:sockets/tcp@0.2.0" "[method]tcp-socket.finish-connect" (func $finish (param i32 i32)))
  (import "wasi:sockets/tcp@0.2.0" "[method]tcp-socket.subscribe" (func $subscribe (param i32) (result i32)))
  (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
  (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop_pollable (param i32)))
  (import "wasi:sockets/ip-name-lookup@0.2.0" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))
"#;

/// One letter says what to do: 4 or 6 connects to the port and address that follow as nibbles (`a` is 0), u creates a
/// UDP socket, and n looks up a name. Passes when it was allowed.
const CONNECTS: &str = r#"
  (func $u8 (param $at i32) (result i32)
    (i32.or (i32.shl (i32.sub (i32.load8_u (local.get $at)) (i32.const 97)) (i32.const 4))
      (i32.sub (i32.load8_u (i32.add (local.get $at) (i32.const 1))) (i32.const 97))))
  (func $u16 (param $at i32) (result i32)
    (i32.or (i32.shl (call $u8 (local.get $at)) (i32.const 8))
      (call $u8 (i32.add (local.get $at) (i32.const 2)))))
  (func $word (param $at i32) (param $index i32) (result i32)
    (call $u16 (i32.add (i32.add (local.get $at) (i32.const 5)) (i32.mul (local.get $index) (i32.const 4)))))
  (func $byte (param $at i32) (param $index i32) (result i32)
    (call $u8 (i32.add (i32.add (local.get $at) (i32.const 5)) (i32.mul (local.get $index) (i32.const 2)))))
  (func $connect (param $at i32) (param $is_six i32) (result i32)
    (local $socket i32) (local $pollable i32)
    (call $create (local.get $is_six) (i32.const 600))
    (if (i32.load8_u (i32.const 600)) (then (return (i32.const 0))))
    (local.set $socket (i32.load (i32.const 604)))
    (if (local.get $is_six)
      (then (call $start (local.get $socket) (call $network) (i32.const 1) (call $word (local.get $at) (i32.const -1))
        (i32.const 0)
        (call $word (local.get $at) (i32.const 0)) (call $word (local.get $at) (i32.const 1))
        (call $word (local.get $at) (i32.const 2)) (call $word (local.get $at) (i32.const 3))
        (call $word (local.get $at) (i32.const 4)) (call $word (local.get $at) (i32.const 5))
        (call $word (local.get $at) (i32.const 6)) (call $word (local.get $at) (i32.const 7))
        (i32.const 0) (i32.const 620)))
      (else (call $start (local.get $socket) (call $network) (i32.const 0) (call $word (local.get $at) (i32.const -1))
        (call $byte (local.get $at) (i32.const 0)) (call $byte (local.get $at) (i32.const 1))
        (call $byte (local.get $at) (i32.const 2)) (call $byte (local.get $at) (i32.const 3))
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 620))))
    (if (i32.load8_u (i32.const 620)) (then (return (i32.const 0))))
    (local.set $pollable (call $subscribe (local.get $socket)))
    (call $block (local.get $pollable))
    (call $drop_pollable (local.get $pollable))
    (call $finish (local.get $socket) (i32.const 640))
    (i32.eqz (i32.load8_u (i32.const 640))))
  (func $does (param $at i32) (param $size i32) (result i32)
    (local $what i32)
    (local.set $what (i32.load8_u (local.get $at)))
    (if (i32.eq (local.get $what) (i32.const 117)) (then
      (call $create_udp (i32.const 0) (i32.const 600)) (return (i32.eqz (i32.load8_u (i32.const 600))))))
    (if (i32.eq (local.get $what) (i32.const 110)) (then
      (call $resolve (call $network) (i32.add (local.get $at) (i32.const 1))
        (i32.sub (local.get $size) (i32.const 1)) (i32.const 600))
      (return (i32.eqz (i32.load8_u (i32.const 600))))))
    (call $connect (local.get $at) (i32.eq (local.get $what) (i32.const 54))))
  (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $read_all (local.get 4) (i32.const 16))
    (i32.store8 (i32.const 36) (call $does (i32.load (i32.const 16)) (i32.load (i32.const 20))))
    (i32.store8 (i32.const 32) (i32.const 0))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 32))
"#;

fn words(target: SocketAddr) -> String {
    let nibbles = |byte: u8| [byte >> 4, byte & 15].map(|nibble| (b'a' + nibble) as char);
    let (family, address) = match target.ip() {
        std::net::IpAddr::V4(address) => ('4', address.octets().to_vec()),
        std::net::IpAddr::V6(address) => ('6', address.octets().to_vec()),
    };
    let bytes = target.port().to_be_bytes().into_iter().chain(address);
    std::iter::once(family).chain(bytes.flat_map(nibbles)).collect()
}

fn bench(grants: &[&str]) -> Bench {
    let wasm = guests::filter_with(CONNECTING, IMPORTS, CONNECTS);
    Bench::with(&wasm, Limits { call_timeout: Duration::from_secs(20), ..limits() }, grants)
}

fn tried(bench: &mut Bench, words: &str) -> bool {
    match bench.accept(words) {
        Ok(Step::Forward) => true,
        Ok(Step::Drop) => false,
        other => panic!("{words}: {:?}", other.err()),
    }
}

#[test]
fn a_granted_loopback_port_is_reached_and_no_other_port_and_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let mut bench = bench(&[&format!("network:tcp-connect:127.0.0.1:{}", target.port())]);
    assert!(tried(&mut bench, &words(target)));
    let other = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let elsewhere = [other, SocketAddr::new("127.0.0.2".parse().unwrap(), target.port())];
    for (count, target) in elsewhere.into_iter().enumerate() {
        assert!(!tried(&mut bench, &words(target)), "{target}");
        assert_eq!(bench.denials.counts(), [(Kind::Connect, 1 + count as u64)]);
    }
}

#[test]
fn a_wildcard_does_not_reach_this_machine_or_its_site() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let mut bench = bench(&["network:tcp-connect:*:*"]);
    let near =
        ["127.0.0.1", "127.1.2.3", "169.254.169.254", "10.0.0.1", "192.168.0.1", "::1", "64:ff9b::7f00:1"];
    for address in near {
        assert!(!tried(&mut bench, &words(SocketAddr::new(address.parse().unwrap(), port))), "{address}");
    }
    assert_eq!(bench.denials.counts(), [(Kind::Connect, near.len() as u64)]);
    // The library itself refuses these.
    for address in ["::ffff:127.0.0.1", "0.0.0.0"] {
        assert!(!tried(&mut bench, &words(SocketAddr::new(address.parse().unwrap(), port))), "{address}");
    }
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn without_a_grant_there_are_no_sockets_and_no_names() {
    let mut bench = bench(&[]);
    assert!(!tried(&mut bench, &words("127.0.0.1:80".parse().unwrap())));
    assert!(!tried(&mut bench, "u"));
    assert!(!tried(&mut bench, "nlocalhost"));
    assert_eq!(bench.denials.counts(), [(Kind::Connect, 1), (Kind::Datagram, 1), (Kind::Lookup, 1)]);
}

#[test]
fn only_granted_names_are_looked_up_and_never_by_datagrams_of_the_guest() {
    let mut bench = bench(&["network:tcp-connect:localhost:80"]);
    assert!(tried(&mut bench, "nlocalhost"));
    assert!(!tried(&mut bench, "nkey-of-the-user.example"));
    assert!(!tried(&mut bench, "u"));
    assert_eq!(bench.denials.counts(), [(Kind::Datagram, 1), (Kind::Lookup, 1)]);
}

//! Requests of a real guest over `wasi:http`: granted ones get a response, all others are denied and counted.
#![allow(clippy::unwrap_used)]

mod guests;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use guests::{Bench, limits};
use torvyn_sandbox::{Kind, Limits};
use torvyn_stream::Step;

const ASKING: &str = r#"
package test:asking;
world guest {
    include torvyn:filtering/content-filter@0.1.0;
    import wasi:http/outgoing-handler@0.2.0;
}
package wasi:io@0.2.0 {
    interface poll { resource pollable { block: func(); } }
}
package wasi:http@0.2.0 {
    interface types {
        use wasi:io/poll@0.2.0.{pollable};
        variant scheme { HTTP, HTTPS, other(string) }
        record DNS-error-payload { rcode: option<string>, info-code: option<u16> }
        record TLS-alert-received-payload { alert-id: option<u8>, alert-message: option<string> }
        record field-size-payload { field-name: option<string>, field-size: option<u32> }
        variant error-code {
            DNS-timeout, DNS-error(DNS-error-payload), destination-not-found, destination-unavailable,
            destination-IP-prohibited, destination-IP-unroutable, connection-refused, connection-terminated,
            connection-timeout, connection-read-timeout, connection-write-timeout, connection-limit-reached,
            TLS-protocol-error, TLS-certificate-error, TLS-alert-received(TLS-alert-received-payload),
            HTTP-request-denied, HTTP-request-length-required, HTTP-request-body-size(option<u64>),
            HTTP-request-method-invalid, HTTP-request-URI-invalid, HTTP-request-URI-too-long,
            HTTP-request-header-section-size(option<u32>), HTTP-request-header-size(option<field-size-payload>),
            HTTP-request-trailer-section-size(option<u32>), HTTP-request-trailer-size(field-size-payload),
            HTTP-response-incomplete, HTTP-response-header-section-size(option<u32>),
            HTTP-response-header-size(field-size-payload), HTTP-response-body-size(option<u64>),
            HTTP-response-trailer-section-size(option<u32>), HTTP-response-trailer-size(field-size-payload),
            HTTP-response-transfer-coding(option<string>), HTTP-response-content-coding(option<string>),
            HTTP-response-timeout, HTTP-upgrade-failed, HTTP-protocol-error, loop-detected, configuration-error,
            internal-error(option<string>),
        }
        resource fields { constructor(); }
        resource request-options;
        resource incoming-response;
        resource outgoing-request {
            constructor(headers: fields);
            set-scheme: func(scheme: option<scheme>) -> result;
            set-path-with-query: func(path-with-query: option<string>) -> result;
            set-authority: func(authority: option<string>) -> result;
        }
        resource future-incoming-response {
            subscribe: func() -> pollable;
            get: func() -> option<result<result<incoming-response, error-code>>>;
        }
    }
    interface outgoing-handler {
        use types.{outgoing-request, request-options, future-incoming-response, error-code};
        handle: func(request: outgoing-request, options: option<request-options>)
            -> result<future-incoming-response, error-code>;
    }
}
"#;

const IMPORTS: &str = r#"
  (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
  (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-scheme" (func $set_scheme
    (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-path-with-query" (func $set_path
    (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-authority" (func $set_authority
    (param i32 i32 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]future-incoming-response.subscribe" (func $subscribe (param i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]future-incoming-response.get" (func $get (param i32 i32)))
  (import "wasi:http/types@0.2.0" "[resource-drop]future-incoming-response" (func $drop_future (param i32)))
  (import "wasi:http/outgoing-handler@0.2.0" "handle" (func $handle (param i32 i32 i32 i32)))
  (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
  (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop_pollable (param i32)))
"#;

/// Requests the host and port in the payload; passes when a response came.
const ASKS: &str = r#"
  (data (i32.const 512) "/")
  (func $ask (param $at i32) (param $size i32) (result i32)
    (local $request i32) (local $future i32) (local $pollable i32)
    (local.set $request (call $request (call $fields)))
    (drop (call $set_scheme (local.get $request) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)))
    (drop (call $set_path (local.get $request) (i32.const 1) (i32.const 512) (i32.const 1)))
    (if (call $set_authority (local.get $request) (i32.const 1) (local.get $at) (local.get $size))
      (then (return (i32.const 0))))
    (call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 600))
    (if (i32.load8_u (i32.const 600)) (then (return (i32.const 0))))
    (local.set $future (i32.load (i32.const 608)))
    (local.set $pollable (call $subscribe (local.get $future)))
    (call $block (local.get $pollable))
    (call $drop_pollable (local.get $pollable))
    (call $get (local.get $future) (i32.const 640))
    (call $drop_future (local.get $future))
    (i32.and (i32.eq (i32.load8_u (i32.const 640)) (i32.const 1))
      (i32.and (i32.eqz (i32.load8_u (i32.const 648))) (i32.eqz (i32.load8_u (i32.const 656))))))
  (func (export "torvyn:filtering/filter@0.1.0#evaluate") (param i64 i64 i32 i32 i32 i32) (result i32)
    (call $read_all (local.get 4) (i32.const 16))
    (i32.store8 (i32.const 36) (call $ask (i32.load (i32.const 16)) (i32.load (i32.const 20))))
    (i32.store8 (i32.const 32) (i32.const 0))
    (call $drop_buffer (local.get 4)) (call $drop_context (local.get 5))
    (global.set $at (i32.const 4096))
    (i32.const 32))
"#;

/// A server on the loopback address, and how many connections it got.
fn serve() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let visits = Arc::new(AtomicUsize::new(0));
    let count = visits.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (port, visits)
}

fn bench(grants: &[&str]) -> Bench {
    let wasm = guests::filter_with(ASKING, IMPORTS, ASKS);
    Bench::with(&wasm, Limits { call_timeout: Duration::from_secs(20), ..limits() }, grants)
}

fn guest_error(bench: &mut Bench, authority: &str) -> bool {
    match bench.accept(authority) {
        Ok(Step::Forward) => true,
        Ok(Step::Drop) => false,
        other => panic!("{authority}: {:?}", other.err()),
    }
}

#[test]
fn a_granted_host_answers_and_no_other_does() {
    let (port, visits) = serve();
    let mut bench = bench(&[&format!("network:http-outgoing:127.0.0.1:{port}")]);
    assert!(guest_error(&mut bench, &format!("127.0.0.1:{port}")));
    assert_eq!(visits.load(Ordering::SeqCst), 1);
    for (count, host) in
        ["localhost", "127.0.0.2", "[::1]", "169.254.169.254", "0x7f000001"].into_iter().enumerate()
    {
        assert!(!guest_error(&mut bench, &format!("{host}:{port}")), "{host}");
        assert_eq!(bench.denials.counts(), [(Kind::Http, 1 + count as u64)]);
    }
    assert_eq!(visits.load(Ordering::SeqCst), 1);
}

#[test]
fn without_a_grant_and_by_a_wildcard_nobody_on_this_machine_is_asked() {
    let (port, visits) = serve();
    for grants in [&[][..], &["network:http-outgoing:*:*"], &["network:tcp-connect:127.0.0.1:*"]] {
        let mut bench = bench(grants);
        for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"] {
            assert!(!guest_error(&mut bench, &format!("{host}:{port}")), "{host} by {grants:?}");
        }
        assert_eq!(bench.denials.counts(), [(Kind::Http, 4)]);
    }
    assert_eq!(visits.load(Ordering::SeqCst), 0);
}

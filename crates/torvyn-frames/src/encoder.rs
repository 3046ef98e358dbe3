//! Encodes frames. What all deltas of a choice share is written once, when the encoder is created.
//!
//! The stages of all choices of an answer share an encoder: its counters are atomic, everything else is constant. The
//! last block of a frame carries its id, so a client that was cut off inside a frame gets the whole frame again. Events
//! of OpenAI have no ids: those answers cannot be resumed, and some clients take every block to begin with `data:`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::escape::{count, escape, number, optional, quoted};
use crate::frame::{Call, Dialect, Failure, Finish, Framing, Identity, Kind, Usage};
use crate::numbers::Numbers;
use crate::openai::Template;

pub const VERSION: u64 = 1;

#[derive(Debug)]
pub struct Encoder {
    pub dialect: Dialect,
    pub framing: Framing,
    pub(crate) identity: Identity,
    /// `id: <epoch>-` of an event; empty in other framings and dialects.
    event_id: Vec<u8>,
    /// `{` and the stream's name, if it has one.
    pub(crate) open: Vec<u8>,
    choices: Vec<Choice>,
    pub(crate) chunk: Template,
    numbers: Numbers,
    pub(crate) has_failed: AtomicBool,
}

#[derive(Debug)]
struct Choice {
    /// What goes between the sequence number and the text: one for text, one for reasoning.
    heads: [Vec<u8>; 2],
    has_role: AtomicBool,
}

impl Encoder {
    pub fn new(dialect: Dialect, framing: Framing, identity: Identity) -> Self {
        let chunk = Template::new(dialect, &identity);
        let mut open = b"{".to_vec();
        if let Some(name) = &identity.stream_id {
            open.extend_from_slice(b"\"stream_id\":");
            quoted(name, &mut open);
            open.push(b',');
        }
        let event_id = match (framing, dialect) {
            (Framing::Events, Dialect::Torvyn) => format!("id: {}-", identity.epoch).into_bytes(),
            _ => Vec::new(),
        };
        let head = |index, kind| match dialect {
            Dialect::Torvyn => torvyn_head(index, kind),
            _ => chunk.delta_head(index, kind),
        };
        let choices = (0..identity.choices).map(|index| Choice {
            heads: [head(index, Kind::Text), head(index, Kind::Reasoning)],
            has_role: AtomicBool::new(dialect != Dialect::Chat),
        });
        Self {
            choices: choices.collect(),
            dialect,
            framing,
            event_id,
            open,
            chunk,
            identity,
            numbers: Numbers::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    pub fn choices(&self) -> u32 {
        self.identity.choices
    }

    /// The next number, or the given one; counting continues from there.
    pub fn number(&self, seq: Option<u64>) -> u64 {
        self.numbers.number(seq)
    }

    /// The number of the last frame.
    pub fn last(&self) -> u64 {
        self.numbers.last()
    }

    #[inline]
    pub(crate) fn begin(&self, seq: Option<u64>, out: &mut Vec<u8>) {
        if self.framing == Framing::Events {
            if let Some(seq) = seq
                && !self.event_id.is_empty()
            {
                out.extend_from_slice(&self.event_id);
                number(seq, out);
                out.push(b'\n');
            }
            out.extend_from_slice(b"data: ");
        }
    }

    #[inline]
    pub(crate) fn finish(&self, out: &mut Vec<u8>) {
        match self.framing {
            Framing::Events => out.extend_from_slice(b"\n\n"),
            Framing::Lines => out.push(b'\n'),
            Framing::Bare => {}
        }
    }

    /// A frame of our own dialect: `write` adds its members after the type and the number.
    fn own(&self, kind: &str, seq: Option<u64>, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.begin(Some(seq.unwrap_or(0)), out);
        out.extend_from_slice(&self.open);
        out.extend_from_slice(b"\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        if let Some(seq) = seq {
            out.extend_from_slice(b",\"seq\":");
            number(seq, out);
        }
        write(out);
        out.push(b'}');
        self.finish(out);
    }

    pub fn start(&self, out: &mut Vec<u8>) {
        if self.dialect != Dialect::Torvyn {
            return (0..self.identity.choices).for_each(|index| self.role(index, out));
        }
        self.own("start", None, out, |out| {
            out.extend_from_slice(b",\"version\":");
            number(VERSION, out);
            out.extend_from_slice(b",\"id\":");
            quoted(&self.identity.id, out);
            out.extend_from_slice(b",\"flow\":");
            quoted(&self.identity.flow, out);
            out.extend_from_slice(b",\"created\":");
            number(self.identity.created, out);
        });
    }

    /// The role chunk of a chat choice, once.
    #[inline]
    pub(crate) fn role(&self, index: u32, out: &mut Vec<u8>) {
        let choice = &self.choices[index as usize];
        if !choice.has_role.load(Ordering::Relaxed) && !choice.has_role.swap(true, Ordering::Relaxed) {
            self.begin(None, out);
            self.chunk.role(index, out);
            self.finish(out);
        }
    }

    /// New text of a choice below `choices`. `logprobs` is JSON in the dialect's format.
    #[inline]
    pub fn text(
        &self,
        seq: u64,
        index: u32,
        kind: Kind,
        text: &str,
        logprobs: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        self.role(index, out);
        self.begin(Some(seq), out);
        if self.dialect == Dialect::Torvyn {
            out.extend_from_slice(&self.open);
            out.extend_from_slice(b"\"type\":\"delta\",\"seq\":");
            number(seq, out);
        }
        out.extend_from_slice(&self.choices[index as usize].heads[kind as usize]);
        escape(text, out);
        match (self.dialect, logprobs) {
            (Dialect::Torvyn, None) => out.extend_from_slice(b"\"}"),
            (Dialect::Torvyn, Some(logprobs)) => {
                out.extend_from_slice(b"\",\"logprobs\":");
                out.extend_from_slice(logprobs.as_bytes());
                out.push(b'}');
            }
            _ => self.chunk.delta_tail(logprobs, out),
        }
        self.finish(out);
    }

    pub fn call(&self, seq: u64, index: u32, call: Call<'_>, logprobs: Option<&str>, out: &mut Vec<u8>) {
        if self.dialect != Dialect::Torvyn {
            self.role(index, out);
            self.begin(Some(seq), out);
            self.chunk.call(index, call, logprobs, out);
            return self.finish(out);
        }
        self.own("delta", Some(seq), out, |out| {
            out.extend_from_slice(b",\"index\":");
            number(u64::from(index), out);
            out.extend_from_slice(b",\"kind\":\"tool_call\",\"call\":{\"index\":");
            number(u64::from(call.index), out);
            optional("id", call.id, out);
            optional("name", call.name, out);
            optional("arguments", Some(call.arguments), out);
            out.push(b'}');
            if let Some(logprobs) = logprobs {
                out.extend_from_slice(b",\"logprobs\":");
                out.extend_from_slice(logprobs.as_bytes());
            }
        });
    }

    /// `data` is JSON. The OpenAI dialects have no field for it.
    pub fn meta(&self, seq: u64, data: &str, out: &mut Vec<u8>) {
        if self.dialect == Dialect::Torvyn {
            self.own("meta", Some(seq), out, |out| {
                out.extend_from_slice(b",\"data\":");
                out.extend_from_slice(data.as_bytes());
            });
        }
    }

    pub fn error(&self, seq: u64, failure: Failure<'_>, out: &mut Vec<u8>) {
        self.has_failed.store(true, Ordering::Relaxed);
        if self.dialect != Dialect::Torvyn {
            let kind = if failure.retryable { "server_error" } else { "api_error" };
            self.begin(Some(seq), out);
            crate::openai::error(kind, failure.code, failure.message, out);
            return self.finish(out);
        }
        self.own("error", Some(seq), out, |out| {
            optional("code", Some(failure.code), out);
            optional("message", Some(failure.message), out);
            out.extend_from_slice(if failure.retryable {
                b",\"retryable\":true"
            } else {
                b",\"retryable\":false"
            });
        });
    }

    /// `timing` is JSON. The OpenAI dialects have no field for it.
    pub fn end(
        &self,
        seq: u64,
        finish: &[Finish<'_>],
        usage: Option<Usage>,
        timing: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        if self.dialect != Dialect::Torvyn {
            return self.openai_end(seq, finish, usage, out);
        }
        self.own("end", Some(seq), out, |out| {
            out.extend_from_slice(b",\"finish\":[");
            for (place, one) in finish.iter().enumerate() {
                out.extend_from_slice(if place > 0 { b",{\"index\":" } else { b"{\"index\":" });
                number(u64::from(one.index), out);
                optional("reason", Some(one.reason), out);
                optional("matched_stop", one.matched_stop, out);
                optional("stopped_by", one.stopped_by, out);
                optional("side", one.side, out);
                out.push(b'}');
            }
            out.push(b']');
            if let Some(usage) = usage {
                out.extend_from_slice(b",\"usage\":{");
                counts(usage, out);
                count(",\"cached_tokens\":", usage.cached, out);
                count(",\"reasoning_tokens\":", usage.reasoning, out);
                out.push(b'}');
            }
            if let Some(timing) = timing {
                out.extend_from_slice(b",\"timing\":");
                out.extend_from_slice(timing.as_bytes());
            }
        });
    }

    /// A heartbeat. On an event stream it is a comment of one line, because a blank line would end a block.
    pub fn heartbeat(&self, out: &mut Vec<u8>) {
        match (self.framing, self.dialect) {
            (Framing::Events, _) => out.extend_from_slice(b": hb\n"),
            (_, Dialect::Torvyn) => {
                out.extend_from_slice(&self.open);
                out.extend_from_slice(b"\"type\":\"heartbeat\"}");
                self.finish(out);
            }
            _ => self.finish(out),
        }
    }
}

fn torvyn_head(index: u32, kind: Kind) -> Vec<u8> {
    let kind = if kind == Kind::Text { "text" } else { "reasoning" };
    format!(",\"index\":{index},\"kind\":\"{kind}\",\"text\":\"").into_bytes()
}

/// The counts that both dialects write in the same way.
pub(crate) fn counts(usage: Usage, out: &mut Vec<u8>) {
    count("\"prompt_tokens\":", usage.prompt, out);
    count(",\"completion_tokens\":", usage.completion, out);
    count(",\"total_tokens\":", usage.prompt.saturating_add(usage.completion), out);
}

//! The chunks of OpenAI's APIs: chat and completions.

use std::sync::atomic::Ordering;

use crate::encoder::{Encoder, counts};
use crate::escape::{count, optional, quoted};
use crate::frame::{Call, Dialect, Finish, Framing, Identity, Kind, Usage};

/// What all chunks of an answer share.
#[derive(Debug)]
pub(crate) struct Template {
    is_chat: bool,
    /// From `{"id":` up to `"choices":[`.
    head: Vec<u8>,
    /// After the choices, with the `usage` member that clients who requested usage find in every chunk.
    tail: &'static [u8],
}

impl Template {
    pub fn new(dialect: Dialect, identity: &Identity) -> Self {
        let is_chat = dialect == Dialect::Chat;
        let object = if is_chat { "chat.completion.chunk" } else { "text_completion" };
        let mut head = b"{\"id\":".to_vec();
        quoted(&identity.id, &mut head);
        optional("object", Some(object), &mut head);
        count(",\"created\":", identity.created, &mut head);
        optional("model", Some(&identity.flow), &mut head);
        head.extend_from_slice(b",\"choices\":[");
        let tail: &[u8] = if identity.include_usage { b"],\"usage\":null}" } else { b"]}" };
        Self { is_chat, head, tail }
    }

    fn choice(&self, index: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        count("{\"index\":", u64::from(index), out);
        out.extend_from_slice(if self.is_chat { b",\"delta\":{" } else { b"," });
    }

    /// Everything before the text of a delta.
    pub fn delta_head(&self, index: u32, kind: Kind) -> Vec<u8> {
        let mut head = Vec::new();
        self.choice(index, &mut head);
        head.extend_from_slice(match (self.is_chat, kind) {
            (true, Kind::Text) => b"\"content\":\"".as_slice(),
            (false, Kind::Text) => b"\"text\":\"",
            // Completions have no reasoning; it must neither be mixed with the text nor be lost.
            (false, Kind::Reasoning) => b"\"text\":\"\",\"reasoning_content\":\"",
            (true, Kind::Reasoning) => b"\"reasoning_content\":\"",
        });
        head
    }

    /// Everything after it.
    #[inline]
    pub fn delta_tail(&self, logprobs: Option<&str>, out: &mut Vec<u8>) {
        out.push(b'"');
        self.close(logprobs, out);
    }

    /// Closes the delta and the chunk of a choice that continues.
    #[inline]
    fn close(&self, logprobs: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.is_chat { b"},\"logprobs\":" } else { b",\"logprobs\":" });
        out.extend_from_slice(logprobs.unwrap_or("null").as_bytes());
        out.extend_from_slice(b",\"finish_reason\":null}");
        out.extend_from_slice(self.tail);
    }

    pub fn role(&self, index: u32, out: &mut Vec<u8>) {
        self.choice(index, out);
        out.extend_from_slice(b"\"role\":\"assistant\",\"content\":\"\"");
        self.close(None, out);
    }

    pub fn call(&self, index: u32, call: Call<'_>, logprobs: Option<&str>, out: &mut Vec<u8>) {
        self.choice(index, out);
        if !self.is_chat {
            out.extend_from_slice(b"\"text\":\"\",");
        }
        count("\"tool_calls\":[{\"index\":", u64::from(call.index), out);
        optional("id", call.id, out);
        optional("type", call.id.map(|_| "function"), out);
        out.extend_from_slice(b",\"function\":{");
        if let Some(name) = call.name {
            out.extend_from_slice(b"\"name\":");
            quoted(name, out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"arguments\":");
        quoted(call.arguments, out);
        out.extend_from_slice(b"}}]");
        self.close(logprobs, out);
    }

    fn finish(&self, finish: Finish<'_>, out: &mut Vec<u8>) {
        self.choice(finish.index, out);
        out.extend_from_slice(if self.is_chat { b"}" } else { b"\"text\":\"\"" });
        out.extend_from_slice(b",\"logprobs\":null");
        optional("finish_reason", Some(finish.reason), out);
        optional("stop_reason", finish.matched_stop, out);
        optional("stopped_by", finish.stopped_by, out);
        if let Some(side) = finish.side {
            out.extend_from_slice(b",\"content_filter\":{\"side\":");
            quoted(side, out);
            out.push(b'}');
        }
        out.push(b'}');
        out.extend_from_slice(self.tail);
    }

    fn usage(&self, usage: Usage, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"],\"usage\":{");
        counts(usage, out);
        count(",\"prompt_tokens_details\":{\"cached_tokens\":", usage.cached, out);
        count("},\"completion_tokens_details\":{\"reasoning_tokens\":", usage.reasoning, out);
        out.extend_from_slice(b"}}}");
    }
}

pub(crate) fn error(kind: &str, code: &str, message: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    quoted(message, out);
    optional("type", Some(kind), out);
    out.extend_from_slice(b",\"param\":null");
    optional("code", Some(code), out);
    out.extend_from_slice(b"}}");
}

impl Encoder {
    /// The chunk with the usage, for clients that requested it. Before an error too: clients stop reading there.
    pub fn usage(&self, usage: Usage, out: &mut Vec<u8>) {
        if self.dialect != Dialect::Torvyn && self.identity.include_usage {
            self.begin(None, out);
            self.chunk.usage(usage, out);
            Self::finish(self, out);
        }
    }

    /// Finish chunks, the usage, an error for choices that were cancelled or failed, and `[DONE]`. After an error only
    /// `[DONE]` follows: clients stop reading there.
    pub(crate) fn openai_end(
        &self,
        seq: u64,
        finish: &[Finish<'_>],
        usage: Option<Usage>,
        out: &mut Vec<u8>,
    ) {
        if !self.has_failed.load(Ordering::Relaxed) {
            let broken = |one: &&Finish<'_>| matches!(one.reason, "cancelled" | "error");
            for one in finish.iter().filter(|one| !broken(one)) {
                self.role(one.index, out);
                self.begin(None, out);
                self.chunk.finish(*one, out);
                Self::finish(self, out);
            }
            if let Some(usage) = usage {
                self.usage(usage, out);
            }
            if let Some(one) = finish.iter().find(broken) {
                let (kind, message) = match one.reason {
                    "cancelled" => ("cancelled", "the answer was cancelled"),
                    _ => ("api_error", "the answer failed"),
                };
                self.begin(None, out);
                error(kind, one.reason, message, out);
                Self::finish(self, out);
            }
        }
        if self.framing == Framing::Events {
            self.begin(Some(seq), out);
            out.extend_from_slice(b"[DONE]");
            Self::finish(self, out);
        }
    }
}

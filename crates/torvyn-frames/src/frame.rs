//! The encoder's input: frames as plain, borrowed data.

/// The dialect: our own frames, or the chunks of OpenAI's two APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Torvyn,
    Chat,
    Completions,
}

/// How blocks of JSON are separated: as server-sent events, one per line, or not at all (one per message).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Events,
    Lines,
    Bare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Reasoning,
}

/// Which answer it is, and how it is sent.
#[derive(Debug, Clone)]
pub struct Identity {
    pub id: String,
    /// The flow or the model.
    pub flow: String,
    pub created: u64,
    /// New for each generation, so that an old event id is recognised.
    pub epoch: String,
    /// Which stream of a connection that carries several.
    pub stream_id: Option<String>,
    pub include_usage: bool,
    pub choices: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub index: u32,
    pub id: Option<&'a str>,
    pub name: Option<&'a str>,
    pub arguments: &'a str,
}

#[derive(Debug, Clone, Copy)]
pub struct Finish<'a> {
    pub index: u32,
    pub reason: &'a str,
    pub matched_stop: Option<&'a str>,
    pub stopped_by: Option<&'a str>,
    /// The side on which a guard ended it: `prompt` or `completion`.
    pub side: Option<&'a str>,
}

#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
    pub cached: u64,
    pub reasoning: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    pub code: &'a str,
    pub message: &'a str,
    pub retryable: bool,
}

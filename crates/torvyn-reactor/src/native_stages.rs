//! Native stages that do not work on text: a source that plays a script and a sink that discards.

use torvyn_stream::{Call, Delivery, Element, Emission, End, Outbox, Pull, Stage, StageError, Step};

/// Sends its tokens in order, `repeat` times.
pub struct Scripted {
    tokens: Vec<Emission>,
    at: usize,
    rounds: u64,
}

impl Scripted {
    pub fn new<T: AsRef<str>>(tokens: &[T], repeat: u64) -> Self {
        let tokens: Vec<_> = tokens.iter().map(|token| Emission::text(token.as_ref())).collect();
        let rounds = if tokens.is_empty() { 0 } else { repeat };
        Self { tokens, at: 0, rounds }
    }
}

impl Stage for Scripted {
    fn pull(&mut self, _call: Call<'_>) -> Result<Pull, StageError> {
        if self.rounds == 0 {
            return Ok(Pull::End(End::because("stop")));
        }
        let token = &self.tokens[self.at];
        let emission = Emission {
            payload: token.payload.clone(),
            len: token.len,
            content_type: token.content_type,
            companion: None,
            delivery: Delivery::default(),
        };
        self.at += 1;
        if self.at == self.tokens.len() {
            self.at = 0;
            self.rounds -= 1;
        }
        Ok(Pull::Ready(emission))
    }

    fn accept(&mut self, _: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }
}

/// Accepts everything and keeps nothing.
pub struct Null;

impl Stage for Null {
    fn accept(&mut self, _: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }
}

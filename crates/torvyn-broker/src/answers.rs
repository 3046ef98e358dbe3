//! What the server answers to a message, or to a request.

use serde::Deserialize;

/// Error codes of the server: a stream or a subject has reached its limit.
const FULL: [u32; 2] = [10077, 10047];
/// The code of an answer that no stream gave.
const NO_STREAM: u32 = 503;

/// The server answered with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: u32,
    pub text: String,
}

impl Refusal {
    pub fn is_full(&self) -> bool {
        FULL.contains(&self.code)
    }
}

#[derive(Deserialize)]
struct Answer {
    error: Option<AnswerError>,
}

#[derive(Deserialize)]
struct AnswerError {
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

/// Whether the server has done what it was asked.
pub fn read_answer(body: &[u8]) -> Result<(), Refusal> {
    if body.is_empty() {
        return Err(Refusal { code: NO_STREAM, text: "no stream stores the subject".into() });
    }
    match serde_json::from_slice::<Answer>(body) {
        Ok(Answer { error: None }) => Ok(()),
        Ok(Answer { error: Some(error) }) => Err(Refusal { code: error.err_code, text: error.description }),
        Err(_) => Err(Refusal { code: 0, text: "its answer cannot be read".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_confirmation_or_a_refusal() {
        assert_eq!(read_answer(br#"{"stream":"S","seq":3,"duplicate":true}"#), Ok(()));
        let full = br#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}"#;
        assert!(read_answer(full).is_err_and(|refusal| refusal.is_full()));
        assert!(read_answer(b"").is_err_and(|refusal| refusal.code == NO_STREAM));
        assert!(read_answer(b"oops").is_err_and(|refusal| !refusal.is_full()));
    }
}

//! A fast parser for the common chunk of an OpenAI stream: choices with new text and nothing else.
//!
//! Any other chunk (a finish, a tool call, logprobs, usage, an error, an unknown field) goes to the full decoder.

use std::borrow::Cow;

use crate::scan::Cursor;

/// Where a chunk has its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `choices[i].delta.content`
    Chat,
    /// `choices[i].text`
    Completion,
}

/// Parses common chunks. When a stream splits a surrogate pair it stops accepting chunks, because the full decoder,
/// which joins the halves, must see all of them.
#[derive(Debug)]
pub struct Quick {
    shape: Shape,
    pub is_careful: bool,
}

/// New text of a choice.
pub type Text<'a> = (u32, Cow<'a, str>);

impl Quick {
    pub fn new(shape: Shape) -> Self {
        Self { shape, is_careful: false }
    }

    /// The new texts of a common chunk, without empty ones; None for any other chunk.
    pub fn texts<'a>(&mut self, data: &'a [u8], out: &mut Vec<Text<'a>>) -> Option<()> {
        if self.is_careful {
            return None;
        }
        let mut cursor = Cursor::new(std::str::from_utf8(data).ok()?);
        let taken = chunk(&mut cursor, self.shape, out);
        self.is_careful = cursor.saw_half_pair;
        if taken.is_none() {
            out.clear();
        }
        taken
    }
}

fn chunk<'a>(cursor: &mut Cursor<'a>, shape: Shape, out: &mut Vec<Text<'a>>) -> Option<()> {
    let mut choices = 0;
    if !cursor.take(b'{') {
        return None;
    }
    cursor.members(b'}', |cursor| match cursor.key()? {
        "choices" => {
            choices += 1;
            if !cursor.take(b'[') {
                return None;
            }
            cursor.members(b']', |cursor| choice(cursor, shape, out))
        }
        "error" | "usage" => cursor.word("null").then_some(()),
        _ => cursor.skip_scalar(),
    })?;
    (choices == 1 && cursor.peek().is_none()).then_some(())
}

fn choice<'a>(cursor: &mut Cursor<'a>, shape: Shape, out: &mut Vec<Text<'a>>) -> Option<()> {
    let (mut index, mut text) = (None, None);
    if !cursor.take(b'{') {
        return None;
    }
    cursor.members(b'}', |cursor| match cursor.key()? {
        "index" if index.is_none() => {
            index = Some(cursor.index()?);
            Some(())
        }
        "delta" if shape == Shape::Chat && text.is_none() => {
            text = Some(delta(cursor)?);
            Some(())
        }
        "text" if shape == Shape::Completion && text.is_none() => {
            text = Some(cursor.string()?);
            Some(())
        }
        "content_filter_results" => filter_results(cursor),
        _ => cursor.skip_nothing(),
    })?;
    let text = text?;
    if !text.is_empty() {
        out.push((index?, text));
    }
    index.map(|_| ())
}

fn delta<'a>(cursor: &mut Cursor<'a>) -> Option<Cow<'a, str>> {
    let mut text = None;
    if !cursor.take(b'{') {
        return None;
    }
    cursor.members(b'}', |cursor| match cursor.key()? {
        "content" if text.is_none() => {
            text = Some(if cursor.word("null") { Cow::Borrowed("") } else { cursor.string()? });
            Some(())
        }
        "role" => cursor.skip_scalar(),
        _ => cursor.skip_nothing(),
    })?;
    Some(text.unwrap_or(Cow::Borrowed("")))
}

/// Azure reports for every chunk what was not filtered; a filtered answer has a finish reason.
fn filter_results(cursor: &mut Cursor<'_>) -> Option<()> {
    if !cursor.take(b'{') {
        return cursor.skip_scalar();
    }
    cursor.members(b'}', |cursor| {
        cursor.key()?;
        if !cursor.take(b'{') {
            return cursor.skip_scalar();
        }
        cursor.members(b'}', |cursor| {
            cursor.key()?;
            cursor.skip_scalar()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(shape: Shape, data: &str) -> Option<Vec<(u32, String)>> {
        let mut out = Vec::new();
        Quick::new(shape).texts(data.as_bytes(), &mut out)?;
        Some(out.into_iter().map(|(index, text)| (index, text.into_owned())).collect())
    }

    #[test]
    fn the_text_of_a_common_chunk_is_found_in_any_order_of_its_fields() {
        let plain =
            r#"{"id":"x","created":1,"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}"#;
        let other = r#" { "choices" : [ { "delta" : {"role":"assistant","content":"\u0068\ud83d\ude00"}, "index" : 3 } ] , "usage":null } "#;
        assert_eq!(texts(Shape::Chat, plain), Some(vec![(0, "hi".to_owned())]));
        assert_eq!(texts(Shape::Chat, other), Some(vec![(3, "h😀".to_owned())]));
        let words = r#"{"choices":[{"text":"a\n","index":1,"logprobs":null}]}"#;
        assert_eq!(texts(Shape::Completion, words), Some(vec![(1, "a\n".to_owned())]));
    }

    #[test]
    fn what_says_more_than_text_is_left_to_the_full_decoder() {
        for data in [
            "[DONE]",
            "",
            r#"{"choices":[]"#,
            r#"{"id":"x"}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
            r#"{"choices":[],"x_groq":{}}"#,
            r#"{"choices":[],"error":{"message":"no"}}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a","reasoning_content":"b"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}"#,
            r#"{"choices":[{"index":01,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a"}}]} {"#,
            "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\nb\"}}]}",
        ] {
            assert_eq!(texts(Shape::Chat, data), None, "{data}");
        }
    }

    #[test]
    fn after_half_a_surrogate_pair_nothing_is_taken_any_more() {
        let half = r#"{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}"#;
        let plain = r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#;
        let mut quick = Quick::new(Shape::Chat);
        assert!(quick.texts(plain.as_bytes(), &mut Vec::new()).is_some());
        assert!(quick.texts(half.as_bytes(), &mut Vec::new()).is_none());
        assert!(quick.texts(plain.as_bytes(), &mut Vec::new()).is_none());
    }
}

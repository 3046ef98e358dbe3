//! What identifies a batch on the broker, as its `Nats-Msg-Id`: `WRITER.SERIES.GENERATION.PARTITION.FIRST.COUNT`.
//!
//! The elements of a series are numbered per partition, without gaps. A segment whose progress is saved continues its
//! series after a crash; a source that publishes at once begins a new one. The last batch of a run has no elements, and
//! the run in the place of the generation.

use std::fmt;

const END: &str = "end";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchId {
    /// Which replica of the segment has written it.
    pub writer: u32,
    pub series: String,
    /// Which start of the segment has written it; at the end of a stream, the run.
    pub generation: String,
    pub partition: u32,
    pub first: u64,
    /// 0 at the end of a stream.
    pub elements: u32,
}

impl BatchId {
    pub fn is_end(&self) -> bool {
        self.elements == 0
    }

    /// None if something else has written the message.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || parts.next();
        let writer = next()?.parse().ok()?;
        let (series, generation) = (next()?.to_owned(), next()?.to_owned());
        let (partition, first) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let count = next()?;
        let elements = if count == END { 0 } else { count.parse().ok()? };
        let id = Self { writer, series, generation, partition, first, elements };
        next().is_none().then_some(id)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, series, generation, partition, first, elements } = self;
        write!(to, "{writer}.{series}.{generation}.{partition}.{first}.")?;
        if self.is_end() { to.write_str(END) } else { elements.fmt(to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for text in ["0.c1a2.g3.17.4096.12", "2.g1.run-7.0.0.end"] {
            let id = BatchId::parse(text).expect("an id");
            assert_eq!(id.to_string(), text);
            assert_eq!(id.is_end(), text.ends_with("end"));
        }
    }

    #[test]
    fn what_others_have_written_is_no_id() {
        for text in ["", "uuid-1", "1.2.3.4.5", "1.a.b.2.3.4.5", "x.a.b.2.3.4", "1.a.b.2.-3.4"] {
            assert_eq!(BatchId::parse(text), None, "{text}");
        }
    }
}

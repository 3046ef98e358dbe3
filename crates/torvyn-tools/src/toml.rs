//! Parses TOML into a plain tree in which every key and value knows its position in the text.
//!
//! The parser limits nesting, so recursive walks of the tree are safe.

use std::ops::Range;

use toml_edit::{Array, Document, InlineTable, Item, Key, Table, Value as TomlValue};

/// A value and the bytes it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub span: Range<usize>,
    pub value: Value,
}

/// The kinds of values. Dates and times stay text: no key of ours is one.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key, its position, and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    pub span: Range<usize>,
    pub node: Node,
}

/// Why the text is not TOML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{message} at byte {}", span.start)]
    Syntax { message: String, span: Range<usize> },
    #[error("tables or arrays are nested too deeply at byte {}", span.start)]
    TooDeep { span: Range<usize> },
}

/// Parses a document. The root is a table that spans all of it.
pub fn parse(text: &str) -> Result<Node, Error> {
    let document = Document::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        // The parser has one message for brackets and another for dotted keys.
        if error.message().contains("recurs") {
            Error::TooDeep { span }
        } else {
            let message = error.message().to_owned();
            Error::Syntax { message, span }
        }
    })?;
    let value = Value::Table(table_entries(document.as_table()));
    Ok(Node { span: 0..text.len(), value })
}

fn table_entries(table: &Table) -> Vec<Entry> {
    let keys = table.iter().filter_map(|(key, _)| table.get_key_value(key));
    keys.filter_map(|(key, item)| entry(key, item)).collect()
}

fn inline_entries(table: &InlineTable) -> Vec<Entry> {
    let keys = table.iter().filter_map(|(key, _)| table.get_key_value(key));
    keys.filter_map(|(key, item)| entry(key, item)).collect()
}

fn entry(key: &Key, item: &Item) -> Option<Entry> {
    let span = key.span().unwrap_or(0..0);
    Some(Entry { key: key.get().to_owned(), node: item_node(item, &span)?, span })
}

/// `key` stands for tables without text of their own, such as `a` in `[a.b]`.
fn item_node(item: &Item, key: &Range<usize>) -> Option<Node> {
    let value = match item {
        Item::None => return None,
        Item::Value(value) => return Some(value_node(value, key)),
        Item::Table(table) => Value::Table(table_entries(table)),
        Item::ArrayOfTables(tables) => Value::Array(
            tables
                .iter()
                .map(|table| Node {
                    span: table.span().unwrap_or_else(|| key.clone()),
                    value: Value::Table(table_entries(table)),
                })
                .collect(),
        ),
    };
    let span = item.span().unwrap_or_else(|| key.clone());
    Some(Node { span, value })
}

fn value_node(value: &TomlValue, key: &Range<usize>) -> Node {
    let span = value.span().unwrap_or_else(|| key.clone());
    let value = match value {
        TomlValue::String(text) => Value::Text(text.value().clone()),
        TomlValue::Integer(number) => Value::Integer(*number.value()),
        TomlValue::Float(number) => Value::Float(*number.value()),
        TomlValue::Boolean(truth) => Value::Boolean(*truth.value()),
        TomlValue::Datetime(moment) => Value::Datetime(moment.value().to_string()),
        TomlValue::Array(array) => Value::Array(array_nodes(array, key)),
        TomlValue::InlineTable(table) => Value::Table(inline_entries(table)),
    };
    Node { span, value }
}

fn array_nodes(array: &Array, key: &Range<usize>) -> Vec<Node> {
    array.iter().map(|value| value_node(value, key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(node: &Node) -> &[Entry] {
        match &node.value {
            Value::Table(entries) => entries,
            other => panic!("not a table: {other:?}"),
        }
    }

    #[test]
    fn keys_and_values_know_their_bytes() {
        let text = "[a.b]\nkey = \"value\" # remark\n";
        let root = parse(text).unwrap();
        let a = &entries(&root)[0];
        let b = &entries(&a.node)[0];
        let key = &entries(&b.node)[0];

        assert_eq!(&text[b.node.span.clone()], "[a.b]");
        assert_eq!(&text[key.span.clone()], "key");
        assert_eq!(&text[key.node.span.clone()], "\"value\"");
        assert_eq!(key.node.value, Value::Text("value".to_owned()));
    }

    #[test]
    fn a_table_without_a_header_has_the_place_of_its_key() {
        let text = "[outer.inner]\n";
        let root = parse(text).unwrap();

        assert_eq!(&text[entries(&root)[0].node.span.clone()], "outer");
    }

    #[test]
    fn each_table_of_an_array_has_its_own_place() {
        let text = "[[edge]]\nx = 1\n[[edge]]\nx = 2\n";
        let root = parse(text).unwrap();
        let Value::Array(tables) = &entries(&root)[0].node.value else {
            panic!("not an array");
        };

        assert_eq!(tables[0].span, 0..8);
        assert_eq!(tables[1].span, 15..23);
    }

    #[test]
    fn a_syntax_error_has_its_place() {
        let Err(Error::Syntax { span, .. }) = parse("a = 1\nb = = 2\n") else {
            panic!("parsed");
        };

        assert_eq!(span.start, 10);
    }

    #[test]
    fn deep_nesting_is_an_error_and_never_a_crash() {
        let deep = 100_000;
        for text in [
            format!("x = {}{}", "[".repeat(deep), "]".repeat(deep)),
            format!("x = {}1{}", "{ x = ".repeat(deep), "}".repeat(deep)),
            format!("x{} = 1", ".x".repeat(deep)),
            format!("[x{}]", ".x".repeat(deep)),
        ] {
            assert!(matches!(parse(&text), Err(Error::TooDeep { .. })));
        }
    }
}

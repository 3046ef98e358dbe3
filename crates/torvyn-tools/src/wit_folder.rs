//! A project's own WIT: whether a folder resolves, and which worlds it has.

use std::path::Path;

use wit_parser::Resolve;

use crate::wasm::Error;

/// The plain names of the worlds of a package folder with its `deps`.
pub fn worlds(folder: &Path) -> Result<Vec<String>, Error> {
    let mut resolve = Resolve::default();
    let pushed = resolve.push_dir(folder);
    // The resolver has the texts, so it can name the line of an error.
    let (package, _) = pushed.map_err(|error| Error::Malformed { message: resolve.render_error(&error) })?;
    Ok(resolve.packages[package].worlds.keys().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contracts() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
    }

    #[test]
    fn a_folder_that_resolves_names_its_worlds() {
        let found = worlds(&contracts().join("torvyn-streaming"));
        assert_eq!(
            found.ok(),
            Some(["data-source", "transform", "managed-transform", "data-sink"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn a_folder_that_does_not_resolve_says_where() {
        let missing = contracts().join("deps/torvyn-filtering");
        let message = worlds(&missing).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("filtering.wit:4:9"), "{message}");
    }
}

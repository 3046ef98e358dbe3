"""The commands, one file each: it parses its options, calls the library and renders the result."""

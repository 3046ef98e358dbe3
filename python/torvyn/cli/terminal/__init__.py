"""Text for a terminal: Markdown, words that wrap, tables that fit."""

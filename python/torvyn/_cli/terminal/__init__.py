"""Text for a terminal.

markdown         Markdown, rendered while it streams
inline_markdown  emphasis, code and links inside a line
line_prefixes    what a line of Markdown begins with
table            tables that fit the width
cell             the cells of a table
word_wrap        styled text that breaks between words
width            how many columns a text takes
glyphs           the characters that boxes and lists are drawn with
"""

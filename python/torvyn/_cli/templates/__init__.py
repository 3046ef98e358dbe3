"""The files that `torvyn init` writes.

project_template  the templates: a pipeline, a gateway, and one per role
gateway           the parts of the gateway's template
c_components      the components of the templates, in C
rust_components   the components of the templates, in Rust
project_files     the files of a template
"""

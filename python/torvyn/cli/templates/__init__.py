"""The files that `torvyn init` writes.

project_template  the projects: a pipeline, and one per role
c_components      the components of the C templates
"""

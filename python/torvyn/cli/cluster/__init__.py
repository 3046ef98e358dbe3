"""What the commands of clusters print.

step_progress      a line for each step that takes a while
status_tables      the tables of `torvyn cluster status`
removal            what `torvyn cluster remove` does
kubernetes_output  the manifests of `torvyn link --on kubernetes`
connection         how other programs connect to the broker and to Ray
"""

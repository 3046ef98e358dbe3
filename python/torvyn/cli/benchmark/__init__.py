"""The measurements behind `torvyn bench`.

measurement         timed rounds for throughput, traced rounds for the time of each call
reference_workload  fixed work that is timed between the rounds
comparison          compares a result with an earlier one
rank_interval       a confidence interval for the difference of two samples
report              the result as text and as Markdown
"""

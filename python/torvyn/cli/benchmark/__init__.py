"""The measurements behind `torvyn bench`: rounds, comparison with an earlier result, report."""

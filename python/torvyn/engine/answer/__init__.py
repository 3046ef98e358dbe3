"""From the steps of an engine to the deltas of an answer, through guards and aggregators."""

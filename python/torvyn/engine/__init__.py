"""LLM engines behind one interface: ask for an answer, get it as deltas while it is made."""

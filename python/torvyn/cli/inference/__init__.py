"""What `torvyn generate` and `torvyn chat` share: options, prompts, answers on the terminal."""

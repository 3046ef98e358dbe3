"""The `local` engine: llama.cpp inside this process."""

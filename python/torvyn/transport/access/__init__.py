"""Access control: API keys, limits per key, admission, host checks and the audit log."""

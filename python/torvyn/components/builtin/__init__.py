"""The built-in components, one file each: `role_name.py`."""

"""The built-in components, one file each: `kind_name.py`."""

"""Puts the helper modules of this folder on the path of the tests below it."""

"""Python packages in an artifact: wheels that a gateway uses without an index and without pip.

download  the wheels that a project's `requirements.txt` files ask for
tags      whether a wheel fits a machine, by its file name
site      unpacks the fitting wheels into a folder that Python can import from
"""

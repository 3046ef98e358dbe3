"""What runs inside a guest in Python, beside the component's own files and `torvyn.contract`.

These modules are copied into the guest when it is built; the host never imports them. `wit_world`
is made by componentize-py for the guest's world.
"""

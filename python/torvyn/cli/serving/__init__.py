"""What `serve` serves, and how that changes while it runs.

served_project   a manifest, an artifact, or only engines
served_exchange  brings the server of a deployment to another generation
"""

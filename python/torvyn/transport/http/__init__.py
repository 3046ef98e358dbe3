"""HTTP: requests, routes, the chat page and the limits of a connection."""

"""The application on its sockets.

server           signals, start and shutdown
hangup           SIGHUP: reloads the certificate and the audit file
sockets          listening sockets and their options
native_listener  the native wire, on the loop of the application
tls              certificates
"""

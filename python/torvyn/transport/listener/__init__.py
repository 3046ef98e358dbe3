"""The application on its sockets.

server           signals, start and shutdown
hangup           SIGHUP: reloads the certificate, the audit file and the flows
sockets          listening sockets and their options
handed_sockets   sockets that outlive their process
native_listener  the native wire, on the loop of the application
tls              certificates
"""

"""The application on its sockets.

server       sockets, signals, shutdown
tls          certificates
idle_reaper  closes connections that send no request, on every port
"""

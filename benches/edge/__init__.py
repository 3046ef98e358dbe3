"""The edge: a gateway from MQTT over a map and a durable buffer to HTTP, beside its peers.

gateway          the question: `python -m benches.edge.gateway`
scenarios        what is measured: speed, latency, outages, kills, the drain
readings         what a sensor publishes, and what must be delivered
broker           mosquitto
publisher        publishes readings, paced or as fast as possible
collector        receives and counts them, and can go away
gateway_process  a gateway under test: started, killed, measured
build_peers      builds the peers: `python -m benches.edge.build_peers`
peers            the gateways, one file each
"""

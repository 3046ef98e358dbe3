"""MQTT, for the source and the sink of that name.

mqtt_component           what both share
options                  what both can be configured with
link                     the thread that connects, reads and writes
client                   the paho client, which handles what happens once per connection
subscriptions            the subscriptions of a session
reader                   splits what arrives into packets
packets                  the packets of which there is one per message
publisher                sends batches of messages and waits for their acknowledgements
topic_template           a topic with the fields of an element
unacknowledged_messages  the messages that the broker waits to see acknowledged

paho-mqtt connects, subscribes and keeps the connection alive. What happens once per message is done
here, for many messages at once: paho needs three reads and 38 us per message, this needs 5 us.
"""

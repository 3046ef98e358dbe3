"""What does an edge over a NATS server cost?

ends          the two ends of the edge, each in a process of its own
measurements  starts them with a broker, and reads their figures
__main__      the page
"""

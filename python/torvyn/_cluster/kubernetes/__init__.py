"""A Placement to manifests for Kubernetes.

manifests    the files of a flow, and the secrets that they refer to
options      what the manifests are made for: an image, a namespace, a broker
workers      a StatefulSet for each group of the flow
server       a Deployment and a Service for a flow that answers requests
broker       nats-server with JetStream, unless there is one already
environment  the variables of a pod, and the secrets that they come from
pod          what all pods have: labels, limits, an unprivileged user
names        names that Kubernetes accepts
yaml_text    objects as YAML

Pure data: nothing here talks to a cluster, and no file contains a secret.
"""

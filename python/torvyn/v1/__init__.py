"""The messages of gRPC, `torvyn/v1/inference.proto`, and what protoc makes of it (`make proto`).

The file lies where its name says, so that what protoc makes of files that import it finds it too.
`inference_pb2` needs the package `protobuf`, `inference_pb2_grpc` also `grpcio`.
"""

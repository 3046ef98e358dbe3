"""The gRPC messages: `torvyn/v1/inference.proto`, and what protoc generates from it.

inference_pb2       the messages; needs `protobuf`
inference_pb2_grpc  the service; needs `grpcio`

`make proto` generates both. The file is at the path that its package name says, so that other
`.proto` files can import it.
"""

"""Server reflection: the descriptions of the services, for tools without a .proto file.

Versions v1 and v1alpha have the same messages under two names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb

from torvyn.transport.grpc.messages import decode
from torvyn.transport.status_table import Code
from torvyn.v1 import inference_pb2

if TYPE_CHECKING:
    from torvyn.transport.grpc.exchange import GrpcExchange

_ALPHA: Final = "grpc.reflection.v1alpha"
_V1: Final = "grpc.reflection.v1"
_SERVICES: Final = tuple(f"{package}.ServerReflection" for package in (_V1, _ALPHA))
PATHS: Final = tuple(f"/{name}/ServerReflectionInfo" for name in _SERVICES)


class Reflection:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted((*names, *_SERVICES))
        self._pool = DescriptorPool()
        for module in (inference_pb2, health_pb2, pb):
            self._pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        self._pool.AddSerializedFile(_v1_file())
        self._find: dict[str, Callable[[Any], Any]] = {
            "file_by_filename": self._pool.FindFileByName,
            "file_containing_symbol": self._pool.FindFileContainingSymbol,
            "file_containing_extension": self._file_of_extension,
        }

    async def answer(self, exchange: GrpcExchange) -> None:
        """Answers each message of the client with one."""
        exchange.begin_call()
        while (data := await exchange.read()) is not None:
            request = decode(pb.ServerReflectionRequest, data)
            answer = self._answer(request, request.WhichOneof("message_request"))
            answer.original_request.CopyFrom(request)
            answer.valid_host = request.host
            if (rest := exchange.post_messages([answer.SerializeToString()])) is not None:
                await rest

    def _answer(self, request: Any, kind: str | None) -> Any:
        answer = pb.ServerReflectionResponse()
        try:
            if kind == "list_services":
                services = [pb.ServiceResponse(name=name) for name in self._names]
                answer.list_services_response.service.extend(services)
            elif kind == "all_extension_numbers_of_type":
                # Messages of proto3 have no extensions.
                found = self._pool.FindMessageTypeByName(request.all_extension_numbers_of_type)
                answer.all_extension_numbers_response.base_type_name = found.full_name
            elif kind is None:
                _fail(answer, Code.INVALID_ARGUMENT, "the request asks for nothing")
            else:
                file = self._find[kind](getattr(request, kind))
                answer.file_descriptor_response.file_descriptor_proto.append(file.serialized_pb)
        except KeyError:
            _fail(answer, Code.NOT_FOUND, f"{getattr(request, str(kind))} was not found")
        return answer

    def _file_of_extension(self, extension: Any) -> Any:
        message = self._pool.FindMessageTypeByName(extension.containing_type)
        return self._pool.FindExtensionByNumber(message, extension.extension_number).file


def _fail(answer: Any, code: Code, message: str) -> None:
    answer.error_response.error_code = code
    answer.error_response.error_message = message


def _v1_file() -> bytes:
    """The description of v1, which the packages of gRPC for Python do not contain."""
    file = FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    file.name = file.name.replace("v1alpha", "v1")
    file.package = _V1
    for field in [field for message in file.message_type for field in message.field]:
        if field.type_name:
            field.type_name = _renamed(field.type_name)
    for method in file.service[0].method:
        method.input_type = _renamed(method.input_type)
        method.output_type = _renamed(method.output_type)
    data: bytes = file.SerializeToString()
    return data


def _renamed(name: str) -> str:
    return name.replace(f".{_ALPHA}.", f".{_V1}.")

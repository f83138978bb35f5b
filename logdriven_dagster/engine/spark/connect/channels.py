"""Channels to a Spark Connect server that keep the server's details of errors.

The server sends the chain of causes with all types of each. PySpark makes one exception of it and
drops the rest, but the types decide whether an attempt is retried. Therefore, an interceptor reads
the response before PySpark does.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import FetchErrorDetailsRequest

_MOST_ANSWERS = 100
_LONGEST_CHAIN = 20

_answers: OrderedDict[str, Any] = OrderedDict()
"""The server's id of an error → the details that it reported; the oldest are dropped."""
_lock = Lock()


class CauseKeeper(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Interceptor that keeps the error details that PySpark requests from a server."""

    def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: Any, request: Any
    ) -> Any:
        """Forward the request; keep the response if it has the details of an error."""
        call = continuation(client_call_details, request)
        if isinstance(request, FetchErrorDetailsRequest) and call.exception() is None:
            with _lock:
                _answers[request.error_id] = call.result()
                while len(_answers) > _MOST_ANSWERS:
                    _answers.popitem(last=False)
        return call


class CauseKeepingChannel(DefaultChannelBuilder):
    """Channel to a server that keeps the causes of its errors."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.add_interceptor(CauseKeeper())


def details_of(error: BaseException) -> Any | None:
    """Return the server's details of an error; None if it reported none or they were dropped."""
    link: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if link is None or isinstance(link, grpc.RpcError):
            break
        link = link.__context__  # PySpark raises its own error while it handles that of gRPC
    return _answers.get(_error_id(link) or "") if isinstance(link, grpc.RpcError) else None


def _error_id(error: grpc.RpcError) -> str | None:
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = ErrorInfo()
        if detail.Unpack(info):
            return str(info.metadata.get("errorId", ""))
    return None

"""Revival: the request of a session, stored so that another process can continue the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torvyn.errors import TorvynError
from torvyn.protocol.encoder import Encoder
from torvyn.protocol.frames import EndFrame, Finish, FinishReason
from torvyn.transport.rejection import is_retryable
from torvyn.transport.request_body import InferenceRequest
from torvyn.transport.sessions.replay import Progress, ReplayedAnswer, generation_lost
from torvyn.transport.sessions.session import Session
from torvyn.transport.sessions.store_file import StoredSession

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import Answer
    from torvyn.engine.service.service import Service


def to_stored(session: Session, request: InferenceRequest) -> StoredSession:
    body = {"what": request.input, "options": request.options}
    return StoredSession(
        id=session.id,
        tenant=session.caller.tenant,
        caller=session.caller.name,
        flow=session.flow,
        epoch=session.epoch,
        request=json.dumps(body),
    )


def replayed(
    services: Mapping[str, Service],
    stored: StoredSession,
    progress: Progress,
    fallback: Mapping[str, Any],
) -> tuple[InferenceRequest, Answer]:
    """The stored request, and its answer from that progress on; raises if it would differ."""
    service = services.get(stored.flow)
    if service is None:
        raise generation_lost(f"the server no longer serves the flow `{stored.flow}`")
    if not service.engine.is_replayable:
        raise generation_lost("the server restarted, and its engine cannot repeat an answer")
    body: dict[str, Any] = json.loads(stored.request)
    request = InferenceRequest(
        "torvyn", stored.flow, body["what"], body["options"], include_usage=True
    )
    options = {**request.options, "request_id": stored.id}
    answer = service.generate(request.input, fallback=fallback, **options)
    rest = ReplayedAnswer(answer, progress)
    return request, rest


def stopped_frames(session: Session, stored: StoredSession) -> list[bytes]:
    """The end of an answer that a client had stopped before its server ended."""
    options = json.loads(stored.request)["options"] if stored.request else {}
    is_stopped = stored.stopped == "stop"
    reason: FinishReason = "stop" if is_stopped else "cancelled"
    by = "client" if is_stopped else None
    choices = range(options.get("n") or 1)
    finishes = tuple(Finish(index, reason, stopped_by=by) for index in choices)
    return [_encoder(session).encode_end(EndFrame(session.buffer.next, finishes, None, None))]


def error_frames(session: Session, error: TorvynError) -> list[bytes]:
    """The last frames of an answer that cannot continue."""
    encoder = _encoder(session)
    last = session.buffer.next - 1
    return [
        encoder.error(error.code, error.message, is_retryable(error), last + 1),
        encoder.end([(0, "error", None, None, None)], None, None, last + 2),
    ]


def _encoder(session: Session) -> Encoder:
    return Encoder(
        "torvyn", "json", id=session.id, flow=session.flow, created=0, epoch=session.epoch
    )

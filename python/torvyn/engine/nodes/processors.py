"""The engines as processors: a node `component = "engine:NAME"` that has an input.

Link uses the processor if the node has an incoming edge, else the source of the same name.
"""

from __future__ import annotations

from torvyn.engine.nodes.processor import EngineProcessor
from torvyn.engine.nodes.source_local import LocalSource
from torvyn.engine.nodes.source_mlc import MLCSource
from torvyn.engine.nodes.source_openai import OpenAISource
from torvyn.engine.nodes.source_pool import PoolSource
from torvyn.engine.nodes.source_scripted import ScriptedSource
from torvyn.engine.nodes.source_transformers import TransformersSource


class ScriptedProcessor(EngineProcessor):
    source_type = ScriptedSource


class OpenAIProcessor(EngineProcessor):
    source_type = OpenAISource


class LocalProcessor(EngineProcessor):
    source_type = LocalSource


class TransformersProcessor(EngineProcessor):
    source_type = TransformersSource


class MLCProcessor(EngineProcessor):
    source_type = MLCSource


class PoolProcessor(EngineProcessor):
    source_type = PoolSource

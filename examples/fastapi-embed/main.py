"""A FastAPI application with a Torvyn flow below /ai: `uvicorn main:program`."""

from pathlib import Path

from fastapi import FastAPI

import torvyn
from torvyn.engine import Service
from torvyn.serve import app

project = torvyn.load(Path(__file__).with_name("Torvyn.toml"))
flows = app({"chat": Service.open(project.plan("chat"))})
program = FastAPI(lifespan=flows.lifespan)
program.mount("/ai", flows)


@program.get("/")
def home() -> dict[str, str]:
    return {"openai": "/ai/v1", "streams": "/ai/v1/streams"}

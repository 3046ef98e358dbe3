"""A model of the library `transformers` and its tokenizer: loading, prompts, generation."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from torvyn._io.packages import import_package
from torvyn.engine.request import Request
from torvyn.errors import InvalidInput, MissingError
from torvyn.text import Vocabulary

if TYPE_CHECKING:
    from torvyn.engine.transformers.token_watch import Watch


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """A prompt as the model reads it: token ids."""

    ids: list[int]

    @property
    def tokens(self) -> int:
        return len(self.ids)


class Model:
    def __init__(self, model: Any, tokenizer: Any) -> None:
        if tokenizer is None:
            raise InvalidInput(
                "transformers: pass the `tokenizer` of a loaded model too",
                code="engine.bad-option",
            )
        self.model, self.tokenizer = model, tokenizer
        self.name = str(getattr(model.config, "name_or_path", "") or type(model).__name__)
        model.eval()

    @classmethod
    def load(cls, name: str, tokenizer: Any, dtype: str, offline: bool) -> Self:
        library = _library()
        try:
            model = library.AutoModelForCausalLM.from_pretrained(
                name, dtype=dtype, local_files_only=offline
            )
            tokenizer = tokenizer or library.AutoTokenizer.from_pretrained(
                name, local_files_only=offline
            )
        except OSError as error:
            reason = str(error).partition("\n")[0]
            raise MissingError(
                "engine.model-missing",
                f"the model `{name}` cannot be loaded: {reason}",
                hint="set `model` to a folder with `config.json`, weights and a tokenizer",
            ) from error
        except (ValueError, KeyError, RuntimeError) as error:
            raise InvalidInput(
                f"the library `transformers` cannot run the model `{name}`: {error}",
                code="engine.model-unusable",
            ) from error
        return cls(model, tokenizer)

    def to(self, device: str) -> None:
        self.model.to(device)

    @property
    def context(self) -> int | None:
        """The size of its context window in tokens; None if its config does not say."""
        size = getattr(self.model.config, "max_position_embeddings", None)
        return size if isinstance(size, int) and size > 0 else None

    @cached_property
    def vocabulary(self) -> Vocabulary:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None or not hasattr(backend, "to_str"):
            file = getattr(self.tokenizer, "vocab_file", None)
            if file is None:
                raise InvalidInput(
                    f"the tokenizer of `{self.name}` does not give the bytes of its tokens",
                    hint="use its fast tokenizer",
                    code="engine.model-unusable",
                )
            return Vocabulary.load(file)
        with tempfile.TemporaryDirectory(prefix="torvyn-") as folder:
            path = Path(folder, "tokenizer.json")
            path.write_text(backend.to_str(), encoding="utf-8")
            return Vocabulary.load(path)

    @cached_property
    def ends(self) -> frozenset[int]:
        """The token ids that end an answer."""
        ids = self.model.generation_config.eos_token_id
        ids = self.tokenizer.eos_token_id if ids is None else ids
        return frozenset(ids if isinstance(ids, (list, tuple)) else [ids]) - {None}

    def prompt(self, request: Request) -> TokenizedPrompt:
        ids = self._encoded(request)
        if not ids:
            raise InvalidInput("the prompt has no tokens", code="engine.request-invalid")
        if self.context is not None and len(ids) >= self.context:
            raise InvalidInput(
                f"the prompt has {len(ids)} tokens; the context of `{self.name}` is {self.context}",
                hint="shorten the prompt",
                code="engine.context-full",
            )
        return TokenizedPrompt(ids)

    def longest_answer(self, request: Request, prompt: TokenizedPrompt) -> int | None:
        """The most tokens that the answer may have; None if nothing limits it."""
        if self.context is None:
            return request.max_tokens
        rest = self.context - prompt.tokens
        return rest if request.max_tokens is None else min(request.max_tokens, rest)

    def sampling(self, request: Request) -> tuple[float, int, float]:
        """Temperature (0: the likeliest token), `top_k`, `top_p`: the request's or the model's."""
        own = self.model.generation_config
        temperature, top_p = request.temperature, request.top_p
        if temperature is None:
            is_random = own.do_sample or top_p is not None
            temperature = (own.temperature or 1.0) if is_random else 0.0
        return float(temperature), own.top_k or 0, float(top_p or own.top_p or 1.0)

    def logprob(self, row: Any, id: int, top: int) -> Mapping[str, Any]:
        """The log probability entry of a token, from the scores of its position."""
        import torch

        row = torch.log_softmax(row.float(), dim=-1)
        best = torch.topk(row, min(top, row.numel()))
        others = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        entry = self._logprob_entry(id, float(row[id]))
        return {**entry, "top_logprobs": [self._logprob_entry(*other) for other in others]}

    def _logprob_entry(self, id: int, logprob: float) -> dict[str, Any]:
        text = self.tokenizer.decode([id])
        return {"id": id, "token": text, "logprob": logprob, "bytes": list(text.encode())}

    def generate(self, request: Request, prompt: TokenizedPrompt, watch: Watch) -> None:
        """Generates one request alone, for models that cannot be batched; one row per choice."""
        import torch

        options: dict[str, Any] = {
            "max_new_tokens": self.longest_answer(request, prompt) or 1 << 20
        }
        ids = torch.tensor([prompt.ids] * request.n, device=self.model.device)
        if request.temperature is not None:
            options["do_sample"] = request.temperature > 0
        if request.temperature:
            options["temperature"] = float(request.temperature)
        if request.top_p:
            options |= {"top_p": float(request.top_p), "do_sample": request.temperature != 0}
        pad = self.tokenizer.pad_token_id
        options["pad_token_id"] = next(iter(self.ends), 0) if pad is None else pad
        with torch.inference_mode():
            self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                streamer=watch,
                stopping_criteria=[watch.is_enough],
                logits_processor=[watch.see] if request.logprobs else None,
                **options,
            )

    def _encoded(self, request: Request) -> list[int]:
        has_template = getattr(self.tokenizer, "chat_template", None) is not None
        if request.prompt is not None and (request.raw_prompt or not has_template):
            return [*self.tokenizer(request.prompt)["input_ids"]]
        if not has_template:
            raise InvalidInput(
                f"`{self.name}` has no chat template, so it cannot answer messages",
                hint="send a prompt; the model continues it",
                code="engine.request-invalid",
            )
        own = {"role": "user", "content": request.prompt}
        text = self.tokenizer.apply_chat_template(
            [own] if request.prompt is not None else [*request.messages],
            tools=[*request.tools] or None,
            add_generation_prompt=True,
            tokenize=False,
        )
        # The template has already added the special tokens.
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"]]


def _library() -> Any:
    for module in ("torch", "transformers"):
        found = import_package(
            module, "the engine `transformers`", "transformers", "engine.package-missing"
        )
    return found

"""What is left of a model's throughput when many streams share it, through guards?

    python -m benches.batching [--size tiny|1b|8b] [--device D] [--streams N] [--tokens N] ...

The engine `transformers` against the library's own `generate_batch`, with a randomly initialised
model, in interleaved rounds. Then the time to the first token of a request that joins a busy batch.
Needs torch; only the figures from a GPU matter.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from benches.harness import quartiles
from benches.peers import distribution_version
from benches.question import cannot_run, publish, say
from benches.report import Report, Table

SIZES = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32},
}
HEADS = {"tiny": (4, 2), "1b": (32, 8), "8b": (32, 8)}
VOCABULARY = {"tiny": 1_000, "1b": 128_256, "8b": 128_256}
CONTEXT, PROMPT = 4_096, 64
GOAL = 0.95
AS_IT_IS = "transformers `generate_batch`"
STAYS = "transformers, the engine's settings"
GUARDED = "torvyn, engine and guards"
METHOD = """\
A Llama with {parameters:.2f} billion parameters and random weights in {dtype} on {device}.
{streams} prompts of {prompt} tokens, {tokens} generated tokens each, greedy, without an end token.
"The engine's settings" is the library's continuous batching with the engine's cache and attention
and a manager that is kept between rounds, as the engine itself uses it. One event loop reads the
engine's streams, bare and through a block-list and redaction. `generate_batch` starts a thread per
call and uses cuDNN's attention, which makes a new plan for every length. Every entry is checked for
all tokens before it is timed. Figures are tokens per second, median and quartiles of {rounds}
interleaved rounds; the share is the median of the rounds' ratios. Joining: a request for one token
while all other streams run."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.batching")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    try:
        model, tokenizer = _model(options.size, options.device)
    except ImportError as error:
        print(f"nothing to run: {error}", file=sys.stderr)
        return 2
    report = Report("batching", "How much throughput do streams keep when they share a model?", "")
    report.method = _method(model, options)
    for name in ("torch", "transformers"):
        report.versions[name] = f"{name} {distribution_version(name)}"
    bench = Bench(model, tokenizer, options.streams, options.tokens)
    report.tables.append(_throughput(report, bench, options.rounds))
    report.tables.append(_joining(report, bench, options.rounds))
    bench.close()
    publish(report, options.json)
    return 0


class Bench:
    """One model three times, with the same weights: batching changes a model, and each entry has
    its own."""

    def __init__(self, model: Any, tokenizer: Any, streams: int, tokens: int) -> None:
        from torvyn.engine import open

        self.streams, self.tokens = streams, tokens
        self.is_gpu = model.device.type != "cpu"
        shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
        self._default = copy.deepcopy(model, {**shared})
        self._manager = _library_manager(copy.deepcopy(model, {**shared}), tokenizer, streams)
        self._engine = open("transformers", model=model, tokenizer=tokenizer, max_batch=streams + 1)
        self._texts = [f"{number:04d}".ljust(PROMPT, ".") for number in range(streams)]
        self._prompts = [tokenizer(text)["input_ids"] for text in self._texts]

    def library(self) -> int:
        """Like `generate_batch` with a persistent manager: submit all, wait for all."""
        ids = self._manager.add_requests(self._prompts, max_new_tokens=self.tokens)
        made = {}
        while len(made) < len(ids):
            result = self._manager.get_result(timeout=1)
            if result is not None:
                made[result.request_id] = len(result.generated_tokens)
        return sum(made.values())

    def defaults(self) -> int:
        """The unchanged library, with the attention that torch picks."""
        import torch

        torch.backends.cuda.enable_cudnn_sdp(True)
        made = self._default.generate_batch(
            self._prompts,
            generation_config=_greedy(),
            max_new_tokens=self.tokens,
            persistent_manager=True,
        )
        torch.backends.cuda.enable_cudnn_sdp(False)
        return sum(len(output.generated_tokens) for output in made.values())

    def engine(self) -> int:
        return asyncio.run(self._all(self._bare))

    def guarded(self) -> int:
        return asyncio.run(self._all(self._guarded))

    def first_token(self) -> tuple[float, float]:
        """Seconds until a request that joins has its first token, and until the others end."""
        return asyncio.run(self._join())

    def close(self) -> None:
        self._engine.close()
        self._manager.stop(hard_stop=True)
        self._default.destroy_cached_continuous_batching_manager()

    async def _all(self, read: Any) -> int:
        return sum(await asyncio.gather(*(read(text) for text in self._texts)))

    async def _bare(self, text: str) -> int:
        generation = self._engine.generate(text, max_tokens=self.tokens, temperature=0)
        async for _ in generation:
            pass
        return generation.usage.completion_tokens

    async def _guarded(self, text: str) -> int:
        generation = self._engine.generate(
            text, max_tokens=self.tokens, temperature=0, through=_guards
        )
        async for _ in generation:
            pass
        return generation.usage.completion_tokens

    async def _join(self) -> tuple[float, float]:
        others = asyncio.gather(*(self._bare(text) for text in self._texts))
        while len(self._engine._runs) < self.streams:  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        start = time.perf_counter()
        await self._engine.acomplete("one more", max_tokens=1, temperature=0)
        first = time.perf_counter() - start
        await others
        return first, time.perf_counter() - start


def _guards() -> Any:
    import torvyn
    from torvyn.components import Blocklist, Redact

    words = {"words": ["bluebird", "top secret"], "mode": "stream", "action": "replace"}
    return torvyn.Flow(Blocklist(words), Redact())


def _greedy() -> Any:
    from transformers import GenerationConfig

    return GenerationConfig(do_sample=False, eos_token_id=-1)


def _library_manager(model: Any, tokenizer: Any, streams: int) -> Any:
    """The library's own batching with a cache of the engine's size, started."""
    from torvyn.engine.transformers.batch_setup import BatchOptions, batch_config, blocks_of
    from torvyn.engine.transformers.model import Model

    ours, options = Model(model, tokenizer), BatchOptions(streams + 1)
    manager = model.init_continuous_batching(
        generation_config=_greedy(),
        continuous_batching_config=batch_config(ours, options, blocks_of(ours, options)),
    )
    manager.warmup()
    manager.start()
    return manager


def _throughput(report: Report, bench: Bench, rounds: int) -> Table:
    entries = {
        STAYS: bench.library,
        "torvyn, engine": bench.engine,
        GUARDED: bench.guarded,
    }
    if bench.is_gpu:  # the default cache takes nine tenths of the memory: on a CPU, of the machine
        entries[AS_IT_IS] = bench.defaults
    for name, entry in entries.items():
        say(f"checking {name}")
        assert entry() == bench.streams * bench.tokens
    rates: dict[str, list[float]] = {name: [] for name in entries}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, entry in entries.items():
            start = time.perf_counter()
            made = entry()
            rates[name].append(made / (time.perf_counter() - start))
            say(f"{name}: {rates[name][-1]:,.0f} tokens/s")
    report.data["tokens_per_s"] = rates
    return _rate_table(rates)


def _rate_table(rates: dict[str, list[float]]) -> Table:
    """Against the unchanged library, and against its batching with the engine's changes."""
    bases = [name for name in (AS_IT_IS, STAYS) if name in rates]
    heads = [f"x {name.removeprefix('transformers ')}" for name in bases]
    table = Table(("entry", "tokens/s", "quartiles", *heads, "target"), title="Throughput")
    for name, found in rates.items():
        low, middle, high = quartiles(found)
        shares = [
            statistics.median(mine / its for mine, its in zip(found, rates[base], strict=True))
            for base in bases
        ]
        goal = f">= {GOAL}: {'met' if shares[0] >= GOAL else 'NOT met'}" if name == GUARDED else ""
        cells = [f"{share:.2f}" for share in shares]
        table.rows.append([name, f"{middle:,.0f}", f"{low:,.0f}-{high:,.0f}", *cells, goal])
    return table


def _joining(report: Report, bench: Bench, rounds: int) -> Table:
    found = [bench.first_token() for _ in range(max(3, rounds))]
    report.data["joining_s"] = found
    first = statistics.median(one for one, _ in found)
    rest = statistics.median(one for _, one in found)
    table = Table(("a request that joins", "ms"), title="Joining a busy batch")
    table.rows.append(["its first token", f"{first * 1e3:,.0f}"])
    table.rows.append(["the others end", f"{rest * 1e3:,.0f}"])
    return table


def _model(size: str, device: str) -> tuple[Any, Any]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    heads, groups = HEADS[size]
    config = LlamaConfig(
        **SIZES[size],
        vocab_size=VOCABULARY[size],
        num_attention_heads=heads,
        num_key_value_heads=groups,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=size == "1b",
    )
    torch.manual_seed(0)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype)
    return model, _tokenizer(VOCABULARY[size])


def _tokenizer(size: int) -> Any:
    """The bytes, and made-up words up to the size of the vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"Ġw{number}" for number in range(size - len(alphabet))]
    made = Tokenizer(models.BPE(vocab={w: at for at, w in enumerate(alphabet + words)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def _method(model: Any, options: argparse.Namespace) -> str:
    import torch

    is_cpu = options.device == "cpu"
    return METHOD.format(
        parameters=sum(tensor.numel() for tensor in model.parameters()) / 1e9,
        dtype=str(model.dtype).removeprefix("torch."),
        device="the CPU" if is_cpu else torch.cuda.get_device_name(),
        streams=options.streams,
        tokens=options.tokens,
        prompt=PROMPT,
        rounds=options.rounds,
    ).replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())

"""The engine `transformers` on a tiny model that is made here, with a tokenizer of its own."""

from __future__ import annotations

import asyncio

import missing
import pytest
from observed_engines import SOON_S, wait_until

from torvyn.engine import open
from torvyn.errors import InvalidInput, MissingError

pytestmark = missing.needs_packages("torch", "transformers")
CONTEXT = 64
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


def tokenizer(chat=None):
    """Bytes are its tokens: every text has a spelling, and characters are cut."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<eos>": 0} | {sign: at + 1 for at, sign in enumerate(alphabet)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    found = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<eos>")
    found.chat_template = chat
    return found


def tiny_model():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=257,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=0,
    )
    return LlamaForCausalLM(config)


@pytest.fixture(scope="module", params=[True, False], ids=["batch", "turns"])
def engine(request):
    with open(
        "transformers", model=tiny_model(), tokenizer=tokenizer(), batching=request.param
    ) as engine:
        yield engine


def whole(prompt, count):
    """What the library itself generates, greedily."""
    import torch

    encode = tokenizer()
    ids = torch.tensor([encode(prompt)["input_ids"]])
    made = tiny_model().generate(ids, max_new_tokens=count, do_sample=False, pad_token_id=0)
    return encode.decode(made[0, ids.shape[1] :], skip_special_tokens=True)


def test_the_text_is_that_of_the_library(engine):
    answer = engine.complete("Hello", max_tokens=30, temperature=0)

    assert answer.text == whole("Hello", 30)
    assert (answer.usage.prompt_tokens, answer.finish_reason) == (5, "length")
    assert answer.usage.completion_tokens == 30


def test_a_seed_makes_chance_repeat_itself_and_leaves_the_process_its_own(engine):
    import torch

    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    asked = {"max_tokens": 20, "temperature": 1.0}
    once, again, other = (engine.complete("x", seed=seed, **asked).text for seed in (5, 5, 6))

    assert once == again != other
    assert torch.equal(before, torch.random.get_rng_state())


def test_choices_share_a_prompt(engine):
    greedy = engine.complete("Hello", n=2, max_tokens=8, temperature=0)
    chance = engine.complete("Hello", n=3, max_tokens=8, temperature=1.0, seed=1)

    assert greedy.choices[0].text == greedy.choices[1].text == whole("Hello", 8)
    assert len({choice.text for choice in chance.choices}) == 3
    assert chance.usage.completion_tokens == 24


def test_log_probabilities_are_those_of_the_tokens(engine):
    (choice,) = engine.complete(
        "Hello", max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    ).choices

    assert len(choice.logprobs) == 4
    for entry in choice.logprobs:
        # Greedy: the token is the likeliest.
        assert entry["id"] == entry["top_logprobs"][0]["id"]
        assert entry["logprob"] == pytest.approx(entry["top_logprobs"][0]["logprob"])


def test_the_sign_of_the_end_is_a_stop_and_no_text():
    import torch

    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight.zero_()  # every token is as likely: the first, which is the end
    with open("transformers", model=model, tokenizer=tokenizer()) as engine:
        answer = engine.complete("Hello", temperature=0)

    assert (answer.text, answer.finish_reason) == ("", "stop")


def test_a_full_context_is_length_and_a_prompt_beyond_it_an_error(engine):
    answer = engine.complete("Hello", temperature=0)
    assert (answer.finish_reason, answer.usage.total_tokens) == ("length", CONTEXT)

    with pytest.raises(InvalidInput, match="a context of 64") as raised:
        engine.complete("x" * CONTEXT)
    assert raised.value.code == "engine.context-full"


def test_a_stop_string_ends_it(engine):
    said = engine.complete("Hello", max_tokens=30, temperature=0).text
    stop = said[10]
    answer = engine.complete("Hello", max_tokens=30, temperature=0, stop=stop)

    assert answer.text == said[: said.index(stop)]
    assert answer.choices[0].matched_stop == stop


def test_messages_go_through_the_template():
    with open("transformers", model=tiny_model(), tokenizer=tokenizer(CHAT)) as engine:
        answer = engine.complete([{"role": "user", "content": "Hi"}], max_tokens=1)

    assert answer.usage.prompt_tokens == len("<user>Hi<assistant>")


def test_messages_without_a_template_are_refused(engine):
    with pytest.raises(InvalidInput, match="no template for messages"):
        engine.complete([{"role": "user", "content": "Hi"}])


def test_leaving_frees_the_model_for_the_next_request(engine):
    from torvyn.engine.transformers import engine as module

    for delta in engine.generate("Hello"):
        if delta.token_ids:
            break
    batch = engine._batch
    wait_until(lambda: not module._turn.locked() and not engine._streams)
    wait_until(lambda: batch is None or not batch.open_sequences)

    assert engine.complete("Hello", max_tokens=1).usage.completion_tokens == 1


def test_a_request_that_waits_for_its_turn_can_be_aborted():
    from torvyn.engine.transformers import engine as module

    async def aborted():
        task = asyncio.ensure_future(engine.acomplete("Hello", request_id="waits"))
        await asyncio.to_thread(wait_until, lambda: engine._streams)
        engine.abort("waits")
        return (await asyncio.wait_for(task, SOON_S)).finish_reason

    with (
        open("transformers", model=tiny_model(), tokenizer=tokenizer(), batching=False) as engine,
        module._turn,
    ):
        assert asyncio.run(aborted()) == "cancelled"


def test_requests_together_get_what_each_gets_alone(engine):
    prompts = ["Hello", "a", "xyz", "Hello again"]

    async def many():
        asks = [engine.acomplete(prompt, max_tokens=9, temperature=0) for prompt in prompts]
        return [answer.text for answer in await asyncio.gather(*asks)]

    assert asyncio.run(many()) == [whole(prompt, 9) for prompt in prompts]


def test_a_model_comes_from_a_folder(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)

    with open("transformers", model=str(tmp_path), offline=True) as engine:
        assert engine.complete("Hello", max_tokens=3, temperature=0).usage.completion_tokens == 3


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="none that `transformers` can run") as raised:
        open("transformers", model=str(tmp_path), offline=True)
    assert raised.value.code == "engine.model-unusable"


def test_a_model_that_is_nowhere_is_named():
    with pytest.raises(MissingError, match="`nobody/nothing` cannot be loaded") as raised:
        open("transformers", model="nobody/nothing", offline=True)
    assert raised.value.code == "engine.model-missing"

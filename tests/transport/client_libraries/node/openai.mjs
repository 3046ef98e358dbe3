// npm `openai`: asks once and prints what it saw, as one JSON object.
import OpenAI from "openai";

const { url, model, leaveAt = null, helper = false, ...options } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "-", maxRetries: 0 });
const asked = { model, messages: [{ role: "user", content: "Hi" }], ...options };
const seen = { texts: [], finish: [], calls: {}, usage: null, logprobs: 0, error: null };

function take(chunk) {
  seen.usage = chunk.usage ?? seen.usage;
  for (const choice of chunk.choices) {
    const { content, tool_calls: calls = [] } = choice.delta;
    if (content) seen.texts[choice.index] = (seen.texts[choice.index] ?? "") + content;
    if (choice.finish_reason) seen.finish[choice.index] = choice.finish_reason;
    seen.logprobs += choice.logprobs?.content?.length ?? 0;
    for (const call of calls) {
      const whole = (seen.calls[call.index] ??= { id: call.id, name: "", arguments: "", parts: 0 });
      whole.name += call.function?.name ?? "";
      whole.arguments += call.function?.arguments ?? "";
      whole.parts += 1;
    }
  }
}

async function read() {
  const stream = await client.chat.completions.create({ ...asked, stream: true });
  for await (const chunk of stream) {
    take(chunk);
    if (leaveAt !== null && (seen.texts[0] ?? "").length >= leaveAt) stream.controller.abort();
  }
}

async function readByHelper() {
  // It joins the pieces itself, and is stricter about them than the plain stream.
  const runner = client.chat.completions.stream(asked);
  const whole = await runner.finalChatCompletion();
  seen.texts = whole.choices.map((choice) => choice.message.content);
  seen.finish = whole.choices.map((choice) => choice.finish_reason);
  seen.usage = whole.usage ?? null;
  seen.calls = whole.choices[0].message.tool_calls ?? {};
}

try {
  await (helper ? readByHelper() : read());
} catch (error) {
  seen.error = { name: error.constructor.name, status: error.status ?? null, text: error.message };
}
process.stdout.write(JSON.stringify(seen));

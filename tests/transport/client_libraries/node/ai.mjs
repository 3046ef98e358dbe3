// npm `ai` with `@ai-sdk/openai-compatible`: asks once and prints what it saw, as one JSON object.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, streamText, tool } from "ai";

const { url, model, leaveAt = null, tools = [] } = JSON.parse(process.argv[2]);
const provider = createOpenAICompatible({
  name: "torvyn",
  baseURL: `${url}/v1`,
  apiKey: "-",
  includeUsage: true,
});
const leaving = new AbortController();
const schema = jsonSchema({ type: "object", properties: { zone: { type: "string" } } });
const seen = { text: "", finish: null, calls: [], usage: null, error: null, aborted: false };

const answer = streamText({
  model: provider(model),
  prompt: "Hi",
  maxRetries: 0,
  abortSignal: leaving.signal,
  tools: Object.fromEntries(tools.map((name) => [name, tool({ inputSchema: schema })])),
  onError: () => {},
});
for await (const part of answer.fullStream) {
  if (part.type === "text-delta") seen.text += part.text;
  if (part.type === "tool-call") seen.calls.push({ name: part.toolName, input: part.input });
  if (part.type === "error") seen.error = String(part.error?.message ?? part.error);
  if (part.type === "abort") seen.aborted = true;
  if (part.type === "finish") Object.assign(seen, { finish: part.finishReason, usage: part.totalUsage });
  if (leaveAt !== null && seen.text.length >= leaveAt) leaving.abort();
}
process.stdout.write(JSON.stringify(seen));

// npm `openai`: asks once for each case, and prints how often it has sent the request, and the status
// of its error.
import OpenAI from "openai";

const { url, cases } = JSON.parse(process.argv[2]);
const wait = globalThis.setTimeout;
// The pauses before retries are short; the time limit of a request, ten minutes, stays.
globalThis.setTimeout = (act, ms, ...more) => wait(act, ms > 120_000 ? ms : 0, ...more);

async function outcome({ model, prompt, stream }) {
  let requests = 0;
  const counted = (...about) => (requests++, fetch(...about));
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "-", maxRetries: 2, fetch: counted });
  try {
    await client.chat.completions.create({ model, stream, messages: [{ role: "user", content: prompt }] });
    return { requests, status: 200 };
  } catch (error) {
    return { requests, status: error.status ?? null };
  }
}

process.stdout.write(JSON.stringify(await Promise.all(cases.map(outcome))));
process.exit(0);

// npm `openai`: asks once for each case, and prints how often it has sent the request, and the status
// of its error. Whether it retries is its own decision; only the pauses before are short.
import OpenAI from "openai";

const { url, cases } = JSON.parse(process.argv[2]);

async function outcome({ model, prompt, stream }) {
  let requests = 0;
  const counted = async (...about) => {
    requests++;
    const { body, status, headers } = await fetch(...about);
    return new Response(body, { status, headers: { ...Object.fromEntries(headers), "retry-after-ms": "1" } });
  };
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

// The official JavaScript client, streaming and not. Prints one JSON document.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "unused" });
const request = { model: "m", messages: [{ role: "user", content: "Tell me about rivers." }], max_tokens: 40 };

const whole = await client.chat.completions.create(request);

let streamed = "";
let usageEvents = 0;
for await (const event of await client.chat.completions.create({ ...request, stream: true })) {
  if (event.usage || event.choices.length === 0) usageEvents += 1;
  streamed += event.choices[0]?.delta?.content ?? "";
}

let askedUsage = null;
const asked = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
for await (const event of asked) {
  if (event.usage) askedUsage = event.usage.completion_tokens;
}

console.log(JSON.stringify({
  whole: whole.choices[0].message.content, wholeUsage: whole.usage.completion_tokens, streamed, usageEvents, askedUsage,
}));

// A front end of AG-UI: adds a task, asks to delete it, and confirms. Prints what the client then knows.
//   node agui_client.mjs FOLDER_WITH_NODE_MODULES URL
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

const [, , folder, url] = process.argv;
const { HttpAgent } = createRequire(`${folder}/package.json`)("@ag-ui/client");
const agent = new HttpAgent({ url, threadId: randomUUID() });
const steps = [];
agent.subscribe({ onStepStartedEvent: ({ event }) => void steps.push(event.stepName) });

async function say(content) {
  agent.addMessage({ id: randomUUID(), role: "user", content });
  await agent.runAgent();
}

await say("add a task to call mom");
const added = agent.messages.at(-1).content;
await say("delete call mom");
const [interrupt] = agent.pendingInterrupts;
await agent.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload: { yes: true } }] });
console.log(
  JSON.stringify({
    added,
    question: interrupt.message,
    deleted: agent.messages.at(-1).content,
    pending: agent.pendingInterrupts.length,
    effects: agent.state.decision.effects,
    steps: steps.slice(0, 3),
  }),
);

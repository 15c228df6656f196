// An MCP client from npm before `graph-agent gateway`: read, change with a confirmation by elicitation, refusal, kill, restart.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const asked = [];
const answers = [{ action: "decline" }, { action: "accept", content: { yes: true } }];

async function connect() {
  const client = new Client({ name: "npm-client", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async (request) => {
    asked.push(request.params.message);
    return answers.shift();
  });
  const transport = new StdioClientTransport({ command: process.argv[2], args: ["gateway"], env: process.env, stderr: "ignore" });
  await client.connect(transport);
  return { client, transport };
}

const call = async (client, name, args = {}) => (await client.callTool({ name, arguments: args })).structuredContent;
const step = (text) => console.log(`✓ ${text} (client of the SDK)`);

let { client, transport } = await connect();
assert.ok((await client.listTools()).tools.some((tool) => tool.name === "delete_task"));
step("tools/list");
const task = (await call(client, "add_task", { description: "call mom" })).data.task;
step("a change");
assert.ok((await call(client, "list_tasks")).data.tasks.some((one) => one.id === task.id));
step("a read");
assert.equal((await call(client, "delete_task", { task_id: task.id })).error, "OK, I won't do that. Nothing was changed.");
step("a declined question");
assert.equal((await call(client, "delete_task", { task_id: task.id })).data.receipt, "deleted 'call mom'");
assert.deepEqual(new Set(asked), new Set(["Delete 'call mom'. Should I go ahead? Please answer yes or no."]));
step("a confirmed question");
assert.equal((await call(client, "list_tasks", { user_id: "bob" })).error_code, "ACCESS_DENIED");
step("a refusal");

const lost = call(client, "add_task", { description: "in mid-call" }).then(() => "answered", () => "lost");
process.kill(transport.pid, "SIGKILL");
await lost;
({ client, transport } = await connect());
assert.ok((await call(client, "list_tasks")).success);
step("a kill in mid-call and a restart");
await client.close();

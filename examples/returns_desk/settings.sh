# The settings of `make run EXAMPLE=returns_desk`, from the root of the repository. What is set before stays as it is.
export GRAPH_AGENT_HOME="${GRAPH_AGENT_HOME:-$PWD/build/returns_desk}"
export RETURNS_DESK_DB="${RETURNS_DESK_DB:-$GRAPH_AGENT_HOME/shop.db}"
export GRAPH_AGENT_MCP=examples/returns_desk/servers.json
export GRAPH_AGENT_CONSTITUTION=examples/returns_desk/constitution.md
export GRAPH_AGENT_CONDITIONS=examples/returns_desk/policy.cedar
if [ -z "$GRAPH_AGENT_MODEL$GEMINI_API_KEY" ]; then
  export GRAPH_AGENT_MODEL=embedded:examples/returns_desk/requests.yaml
fi
mkdir -p "$GRAPH_AGENT_HOME"

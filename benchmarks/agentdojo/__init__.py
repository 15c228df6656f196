"""AgentDojo (https://agentdojo.spylab.ai) through the engine: injections against the conditions that `policy new` writes."""

from graph_agent.db.migration_env import run

run()

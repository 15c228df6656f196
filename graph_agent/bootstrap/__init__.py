"""The only package that constructs and connects objects: adapters, database, tools, services.

    adapters.py         the model that answers, and why it was chosen
    stores.py           the database, migrated
    secret.py           the key that signs confirmations
    toolbox.py          the shipped task server and its client
    runtime.py          everything that serves turns
    validating.py       everything that runs test cases
    agent_services.py   everything that `run_agent` needs

Import from the module that you need: reading the log needs stores.py only, which loads neither LangGraph nor the MCP SDK.
"""

LOCAL_USER = "local"
"""The user id of the tasks if authentication is not configured."""
